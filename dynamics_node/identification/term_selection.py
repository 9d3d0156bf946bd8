"""Selection of terms by the error of unseen torques: rotors, springs, and other forms of friction.

Without the term of rotors, their inertia must come from the bodies: an arm with geared motors is then
identified several times too heavy, with a fair fit. A sample of the recordings is fitted by least squares, in
turn without each of its parts. A term belongs to the model if it reduces the errors of the parts that were
left out.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import STATES, fit_of, residuals, squares_of, torque_rows

CANDIDATES = ("rotor", "creep", "spring")
PARTS = 5
FEWEST = 50  # rows per part
WORTH = 0.95  # ratio of errors: a term must reduce it below this


class TermSelection(NamedTuple):
    """terms: the given ones and those worth adding; added: the latter; ratio: of the errors of unseen torques
    with them to those without, a root mean square over joints."""

    terms: tuple[str, ...]
    added: tuple[str, ...] = ()
    ratio: float = 1.0

    @property
    def text(self) -> str:
        """A clause about the effect."""
        verb = "terms {} reduce" if len(self.added) > 1 else "term {} reduces"
        names = verb.format(" and ".join(self.added))
        return f"the {names} the errors of unseen torques to {100 * self.ratio:.2g} %"


def select_terms(linear: RegressorModel, base: BaseParameters, rows) -> TermSelection:
    """Add terms one by one as long as the best one is worth it. rows {kind: (n, ...)}: a sample, in order;
    empty, or too few: no term is added."""
    terms = linear.terms
    if "inertia" not in terms or len(rows.get("q", ())) < PARTS * FEWEST:
        return TermSelection(terms)
    blocks = linear.joint_blocks(*(rows[kind] for kind in STATES))
    left = [term for term in CANDIDATES if term not in terms]
    base_rows = torque_rows(linear, base, rows)
    joint_columns = (blocks[term] for term in left)
    every = np.concatenate([base_rows[..., :-1], *joint_columns, base_rows[..., -1:]], axis=-1)
    parts = np.array_split(every, PARTS)
    S, count = np.array([squares_of(part) for part in parts]), np.array([len(part) for part in parts])
    chosen, joints = np.arange(base.count), len(linear.joints)
    places = {term: base.count + k * joints + np.arange(joints) for k, term in enumerate(left)}
    first = before = _unseen(S, count, chosen)
    added: list[str] = []
    while places:
        errors = {term: _unseen(S, count, np.append(chosen, columns)) for term, columns in places.items()}
        best = min(places, key=lambda term: _ratio(errors[term], before))
        if _ratio(errors[best], before) > WORTH:
            break
        added.append(best)
        chosen, before = np.append(chosen, places.pop(best)), errors[best]
    return TermSelection((*terms, *added), tuple(added), _ratio(before, first))


def _unseen(S, count, columns):
    """Root mean squares (nv,) of torques, every part fitted to the others with some of the columns; 0 for
    torques that are not measured in all of them. S (PARTS, nv, k + 1, k + 1), count (PARTS,): rows."""
    at = np.append(columns, S.shape[-1] - 1)
    measured = S[..., -1, -1].all(axis=0)
    S = np.where(measured[:, None, None], S[..., at[:, None], at], 0.0)
    squares = np.zeros(S.shape[1])
    for part, rows in enumerate(count):
        x, _ = fit_of(S.sum(axis=0) - S[part], count.sum() - rows)
        squares += residuals(S[part], np.full(S.shape[1], rows), x) ** 2 * rows
    return np.sqrt(squares / count.sum())


def _ratio(errors, before):
    """Root mean square of the ratios of errors, over the joints with any."""
    some = before > 0
    return float(np.sqrt(np.mean((errors[some] / before[some]) ** 2))) if some.any() else 1.0
