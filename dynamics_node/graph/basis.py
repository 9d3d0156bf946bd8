"""Which of more readings than are needed the unknowns are solved from; the others are redundant."""

import numpy as np

from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.markowitz import NoPivotError
from dynamics_node.graph.permuted import scalar_columns, scalar_rows
from dynamics_node.graph.sensor_system import SensorSystem
from dynamics_node.graph.variables import ACCELERATION, EXTERNAL, JOINT_ACCELERATION, WRENCH
from dynamics_node.symbolic import pivoted

DEPENDENT = 1e-9  # what a row says beside others, relative, that counts as nothing
# A reading of what others follow from is taken rather than one that needs a solve, unless it is so much less
# precise.
PREFERRED = {JOINT_ACCELERATION: 30.0, ACCELERATION: 30.0, EXTERNAL: 30.0, WRENCH: 10.0}


class RedundantError(ValueError):
    """Exact rows that imply each other."""


def choose_basis(system: SensorSystem) -> tuple[int, ...]:
    """Numbers of the noisy rows, at a generic state (the first of the system), that determine best what exact
    ones leave open. Raises NoPivotError where none do, RedundantError where exact rows imply each other."""
    noisy = sum(factor.rows for factor in system.noisy)
    if noisy + sum(f.rows for f in system.exact) == sum(x.dim for x in system.variables):
        return tuple(range(noisy))
    from scipy.linalg import qr  # 0.2 s, for those who measure more than they need

    columns = scalar_columns(system.variables)
    D, Y = (_dense(factors, columns) for factors in (system.exact, system.noisy))
    D = D / np.maximum(np.abs(D).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    Q, R, _ = qr(D.T, pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    if rank < len(D):
        raise RedundantError("exact equations of sensors and dynamics imply each other")
    missing = len(columns) - rank
    std = np.sqrt(np.concatenate([np.diag(R) for R in system.covariances]))
    weight = np.array([_preference(factor) for factor in system.noisy for _ in range(factor.rows)])
    open_rows = (Y @ Q[:, rank:]) * (weight / std)[:, None]
    order, sizes = pivoted(open_rows)
    if len(sizes) < missing or not np.all(sizes > DEPENDENT * sizes.max(initial=0.0)):
        raise NoPivotError(_undetermined(np.vstack([D, Y]), columns))
    return tuple(sorted(order[:missing]))


def _preference(factor: LinearFactor):
    return min((PREFERRED.get(x.kind, 1.0) for x in factor.blocks), default=1.0)


def _undetermined(A, columns):
    _, sizes, V = np.linalg.svd(A / np.maximum(np.abs(A).max(axis=1, keepdims=True), 1e-300))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    free = np.abs(V[rank:]).max(axis=0, initial=0.0) > DEPENDENT
    return [column for column, is_free in zip(columns, free, strict=True) if is_free]


def _dense(factors, columns):
    """(rows, columns) at the first state."""
    rows, _ = scalar_rows(factors, columns)
    A = np.zeros((len(rows), len(columns)))
    for k, row in enumerate(rows):
        for c, entry in row.items():
            A[k, c] = np.ravel(entry)[0]
    return A
