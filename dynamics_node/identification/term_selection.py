"""Selection of terms by the error of unseen torques: rotors, springs, and other forms of friction.

Without the term of rotors, their inertia must come from the bodies: an arm with geared motors is then
identified several times too heavy, with a fair fit. A sample of the recordings is fitted by least squares, in
turn without each of its parts. A term belongs to the model if it reduces the errors of the parts that were
left out.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import FAINTEST, residuals

CANDIDATES = ("rotor", "creep", "spring")
PARTS = 5
FEWEST = 50  # rows per part
ROUNDS = 3  # of weighting each torque by its residuals
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
    states = [rows[kind] for kind in ("q", "qd", "qdd")]
    blocks, left = linear.joint_blocks(*states), [term for term in CANDIDATES if term not in terms]
    W = np.concatenate([base.reduced(linear.matrix(*states)), *(blocks[term] for term in left)], axis=-1)
    S, count = _sums(W, rows["tau"] - linear.known(*states))
    own = np.arange(base.count)
    places = (
        dict(zip(left, np.split(np.arange(base.count, W.shape[-1]), len(left)), strict=True)) if left else {}
    )
    first = before = _unseen(S, count, own)
    added: list[str] = []
    while places:
        errors = {term: _unseen(S, count, np.append(own, columns)) for term, columns in places.items()}
        best = min(places, key=lambda term: _ratio(errors[term], before))
        if _ratio(errors[best], before) > WORTH:
            break
        added.append(best)
        own, before = np.append(own, places.pop(best)), errors[best]
    return TermSelection((*terms, *added), tuple(added), _ratio(before, first))


def _sums(W, tau):
    """(PARTS, nv, k + 1, k + 1): sums of squares of columns W (n, nv, k) and tau (n, nv), by part; and the
    numbers (PARTS,) of rows."""
    both = np.concatenate([W, tau[..., None]], axis=-1)
    parts = [np.ascontiguousarray(part.swapaxes(0, 1)) for part in np.array_split(both, PARTS)]
    return np.stack([part.swapaxes(1, 2) @ part for part in parts]), np.array([p.shape[1] for p in parts])


def _unseen(S, count, columns):
    """Root mean squares (nv,) of torques, every part fitted to the others with some of the columns; 0 for
    torques that are not measured in all of them."""
    at = np.append(columns, S.shape[-1] - 1)
    S = S[..., at[:, None], at]
    squares, measured = np.zeros(S.shape[1]), S[..., -1, -1].all(axis=0)
    for part in range(PARTS):
        train, rows = S.sum(axis=0) - S[part], count.sum() - count[part]
        spread = np.where(measured, np.sqrt(train[:, -1, -1] / rows), np.inf)
        for _ in range(ROUNDS):
            total = np.einsum("j,jkl->kl", 1.0 / spread**2, train)
            x = covariance_of(total[:-1, :-1]) @ total[:-1, -1]
            spread = np.maximum(residuals(train, np.full(len(train), rows), x), FAINTEST * spread)
        squares += residuals(S[part], np.full(len(train), count[part]), x) ** 2 * count[part]
    return np.where(measured, np.sqrt(squares / count.sum()), 0.0)


def _ratio(errors, before):
    """Root mean square of the ratios of errors, over the joints with any."""
    some = before > 0
    return float(np.sqrt(np.mean((errors[some] / before[some]) ** 2))) if some.any() else 1.0
