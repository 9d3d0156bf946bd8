"""The choice of the rows that a variable is solved from.

It is made once per robot, from the factors at a few generic states. Entries are analytic in the state: those
that vanish at generic states vanish everywhere, and a pivot that is constant over them is safe everywhere.
Order of preference: identity, definite, then rows picked one scalar at a time (constants first), which yields
a non-singular set whenever there is one. A definite pivot of an acceleration is safe; that of the force of a
contact is singular where the joints cannot move the contact, so it is watched.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.errors import SingularPivotError
from dynamics_node.graph.factors import CONTACT_FORCE, JOINT_ACCELERATION

SMALL = 1e-9  # a pivot below this part of its row counts as zero
WEAK = 0.05  # ... and below this part is a last resort
CONSTANT = 1e-12


class Candidate(NamedTuple):
    """block (states, rows, dim) of a factor on the variable; own: the factor is of the variable's body."""

    block: np.ndarray
    own: bool


class Pivot(NamedTuple):
    """rows: (factor number, row) in pivot order; columns: the variable's entries in the same order.

    sign: +-1 if the pivot block is plus or minus the identity; definite: it is symmetric definite. Any other
    pivot may be weak at some states.
    """

    rows: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]
    sign: int = 0
    definite: bool = False

    @property
    def safe(self):
        """True if it cannot become weak at any state."""
        return bool(self.sign or self.definite)


def choose_pivot(variable, factors, definite=True):
    """Pivot of a variable.

    factors: {number: Candidate} of the factors that touch it; definite: whether a pivot that is definite at
    the present states is always definite. Raises SingularPivotError if no set of rows determines the
    variable.
    """
    return (
        _identity_pivot(variable, factors)
        or (_definite_pivot(variable, factors) if definite or variable.kind == CONTACT_FORCE else None)
        or _scalar_pivots(variable, factors)
    )


def _whole(number, dim, sign=0, definite=False):
    rows = tuple((number, row) for row in range(dim))
    return Pivot(rows, tuple(range(dim)), sign, definite)


def _identity_pivot(variable, factors):
    dim = variable.dim
    for number, (block, _) in factors.items():
        for sign in (1, -1):
            if block.shape[-2] == dim and np.abs(block - sign * np.eye(dim)).max() < CONSTANT:
                return _whole(number, dim, sign)
    return None


def _definite_pivot(variable, factors):
    """D = S^T IA S of the articulated-body algorithm, in the joint's own equation, or the apparent inverse
    inertia at a contact. An inertia itself is no pivot, since links may be massless."""
    if variable.kind not in (JOINT_ACCELERATION, CONTACT_FORCE):
        return None
    for number, (block, own) in factors.items():
        if own and block.shape[-2] == variable.dim and _definite(block):
            return _whole(number, variable.dim, definite=variable.kind == JOINT_ACCELERATION)
    return None


def _definite(block):
    symmetric = np.abs(block - np.swapaxes(block, -1, -2)).max() <= 1e-9 * np.abs(block).max()
    if not symmetric:
        return False
    eigenvalues = np.linalg.eigvalsh(block)
    least, most = np.abs(eigenvalues).min(axis=-1), np.abs(eigenvalues).max(axis=-1)
    same_sign = np.all(eigenvalues > 0) or np.all(eigenvalues < 0)
    return bool(same_sign and np.all(least > SMALL * most))


def _scalar_pivots(variable, factors):
    labels = [(number, row) for number, c in factors.items() for row in range(c.block.shape[-2])]
    if len(labels) < variable.dim:
        raise _singular(variable)
    own = np.array([factors[number].own for number, _ in labels])
    natural = np.array([[row == column for column in range(variable.dim)] for _, row in labels])
    dislike = 3.0 * ~own[:, None] + 0.5 * ~natural
    table = np.concatenate([c.block for c in factors.values()], axis=-2)
    scale = np.abs(table).max(axis=(0, 2))
    table = table / np.where(scale > 0, scale, 1.0)[:, None]
    rows: list[int] = []
    columns: list[int] = []
    for _ in range(variable.dim):
        row, column = _best_entry(variable, table, dislike, rows, columns)
        rows.append(row)
        columns.append(column)
        table = _eliminate_entry(table, row, column, rows)
    return Pivot(tuple(labels[row] for row in rows), tuple(columns))


def _singular(variable):
    return SingularPivotError(
        f"{variable} cannot be solved at its place in the ordering: no independent equation is left "
        "(singular pivot); eliminate it later or choose another ordering"
    )


def _best_entry(variable, table, dislike, used_rows, used_columns):
    size = np.abs(table).min(axis=0)
    size[used_rows, :] = 0.0
    size[:, used_columns] = 0.0
    if size.max() < SMALL:
        raise _singular(variable)
    varies = np.ptp(table, axis=0) > CONSTANT
    cost = 4.0 * (size < WEAK) + 1.0 * varies + dislike - 0.4 * size
    cost[size < SMALL] = np.inf
    best = int(np.argmin(cost.astype(np.float32)))  # float32: ties go to the first
    row, column = np.unravel_index(best, cost.shape)
    return int(row), int(column)


def _eliminate_entry(table, row, column, used_rows):
    factor = table[:, :, column] / table[:, row, column][:, None]
    factor[:, used_rows] = 0.0
    table = table - factor[:, :, None] * table[:, row, None, :]
    table[np.abs(table) < 1e-14] = 0.0
    return table
