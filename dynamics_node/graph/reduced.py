"""A sensor problem in few unknowns: all variables as affine functions of the free ones.

Accelerations A, wrenches F and torques have equations of their own with the identity before them (paper 1,
eqs. (5)-(7)); in the order of the recursions each follows from those before. What is left free are joint
accelerations, external wrenches and forces of loops; the other rows are conditions on these.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.sensor_system import SensorSystem
from dynamics_node.graph.variables import ACCELERATION, TORQUE, WRENCH, Variable

CANCELLED = 1e-12  # coefficients beside the terms of which they are the sum


class Rows(NamedTuple):
    """A z = b: A (..., rows, n), b (..., rows)."""

    A: np.ndarray
    b: np.ndarray


class Reduced(NamedTuple):
    """free: the variables z (n,) is made of; values: {variable: (..., dim, 1 + n)}, what it is at z = 0 and
    the derivatives by z; exact: what else is exact, one Rows a factor, with the factors; noisy: of every
    noisy factor."""

    free: tuple[Variable, ...]
    values: Mapping[Variable, np.ndarray]
    exact: tuple[Rows, ...]
    exact_factors: tuple[LinearFactor, ...]
    noisy: tuple[Rows, ...]

    @property
    def size(self):
        return sum(x.dim for x in self.free)


def reduced(system: SensorSystem) -> Reduced:
    """The same problem in the free variables; of floats."""
    own = {x: factor for factor in system.exact if (x := _own(factor)) is not None}
    free = tuple(x for x in system.variables if x not in own)
    batch = np.broadcast_shapes(*(factor.rhs.shape[:-1] for factor in (*system.exact, *system.noisy)))
    values = _selected(free, batch)
    for x in sorted(own, key=recursion_order):
        A, b = factor_rows(own[x], values, without=x)
        values[x] = np.concatenate([b[..., None], -A], axis=-1)
    others = tuple(factor for factor in system.exact if _own(factor) is None)
    exact = tuple(Rows(*factor_rows(factor, values)) for factor in others)
    noisy = tuple(Rows(*factor_rows(factor, values)) for factor in system.noisy)
    return Reduced(free, values, exact, others, noisy)


_OWN = {"acceleration": ACCELERATION, "wrench": WRENCH, "torque": TORQUE}


def _own(factor) -> Variable | None:
    """The variable that an equation of the dynamics has the identity before, if it is there."""
    if factor.kind not in _OWN:
        return None
    found = Variable(_OWN[factor.kind], factor.body, factor.rows)
    return found if found in factor.blocks else None


def recursion_order(variable):
    """A from the root to the tips, F back, torques, then what is free."""
    kinds = (ACCELERATION, WRENCH, TORQUE)
    place = kinds.index(variable.kind) if variable.kind in kinds else len(kinds)
    return place, -variable.body if variable.kind == WRENCH else variable.body


def _selected(free, batch):
    """{variable: itself}"""
    n, start, found = sum(x.dim for x in free), 0, {}
    for x in free:
        value = np.zeros((*batch, x.dim, 1 + n))
        value[..., 1 + start : 1 + start + x.dim] = np.eye(x.dim)
        found[x] = value
        start += x.dim
    return found


def factor_rows(factor, values, without=None):
    """A (..., rows, n) and b (..., rows) of a factor in the free variables; without: a variable that is left
    out. Coefficients that cancel to rounding are zero."""
    n = next(iter(values.values())).shape[-1] if values else 1
    total, size = np.zeros((factor.rows, n)), np.zeros((factor.rows, n))
    for x, block in factor.blocks.items():
        if x != without:
            total = total + block @ values[x]
            size = size + np.abs(block) @ np.abs(values[x])
    A = np.where(np.abs(total) > CANCELLED * size, total, 0.0)[..., 1:]
    return A, factor.rhs - total[..., 0]
