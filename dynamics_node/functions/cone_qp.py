"""Quadratic programs with cones of friction. Compiled code solves most of them (codegen/c/cone_program.py).
The rest, and all without a compiler, are left to DAQP, whose results are checked here.

For DAQP, a cone of friction is the intersection of its tangent planes. The first program has none of them.
At each cone that its solution leaves, the plane that touches the cone nearby is added, and a term of the
cone's curvature, as in sequential quadratic programming: two or three more programs then suffice. Planes of
a cone only remove points outside of it, so a solution within all cones that is optimal for the planes is
optimal for the cones.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_qp import UNBOUNDED, ForceVariables
from dynamics_node.optional import required

TOLERANCE = 1e-6  # of the optimality conditions, relative to the largest force and cost
EXCESS = 1e-9  # outside of a cone, relative to the largest force
PENALTY = 1e3  # of squares of violations, relative to costs
DEPENDENT = 1e-9  # singular values of dependent equations
MOST_PROGRAMS = 60
PARALLEL = 0.98  # cosine of the angle between planes of a cone that replace each other
SETTINGS = {"primal_tol": 1e-10, "dual_tol": 1e-12, "zero_tol": 1e-9, "iter_limit": 10_000}


@cache
def required_daqp() -> Any:
    """The module. Raises ImportError with the command to install it."""
    return required("daqp", "the optimization of contact forces")


class QP(NamedTuple):
    """Minimize x^T H x / 2 + f^T x with lower <= (the first of x, A x) <= upper, sense 5 for equations, and
    the cones, which are wider by `room`. slack: -1, or the first of the variables by which normal forces may
    be negative, and tangents outside of their cone."""

    H: np.ndarray
    f: np.ndarray
    A: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sense: np.ndarray
    room: float = 0.0
    slack: int = -1


class ConeSolver:
    """Solves the programs of `contact_qp_program`. fixed (nv,) bool: torques that are zero. compiled(): makes
    the `kernel`, which solves most of them. The others are left to DAQP; without it, all are."""

    def __init__(self, variables: ForceVariables, fixed: np.ndarray, compiled=None):
        required_daqp()
        self._variables, self._compiled, self._kernel = variables, compiled, None
        self._fixed = np.concatenate([fixed, np.zeros(len(variables.wedges), dtype=bool)])
        self._sense = np.zeros(variables.nnormals + len(self._fixed), dtype=np.int32)
        self._sense[variables.nnormals :][self._fixed] = 5

    def prepare(self):
        """Compile now what the first call needs."""
        if self._kernel is None and self._compiled is not None:
            self._kernel = self._compiled()

    @property
    def kernel(self):
        """The ConeKernel, or None."""
        self.prepare()
        return self._kernel

    def by_daqp(self, program) -> np.ndarray:
        """The forces x (n,) of one state. Where none keep all limits, those that give the fixed torques as
        far as contacts can, at the least cost with squares of violations times PENALTY; NaN if these fail the
        check."""
        tau0, H, *_ = program
        size = force_size(tau0 @ tau0)
        for qp in self._ever_softer(program, size):
            x = self._within_cones(qp, size)
            if x is not None:
                return x[: len(H)]
        return np.full(len(H), np.nan)

    def _ever_softer(self, program, size):
        """QPs of a program, each for the case that those before it have no solution."""
        _, H, f, A, lower, upper = program
        yield QP(H, f, A, lower, upper, self._sense)
        strict = self._independent(H, f, A, lower, upper)
        yield strict
        yield _widened(strict, 0.5 * TOLERANCE * size)
        yield self._softened(strict)

    def _independent(self, H, f, A, lower, upper):
        """The QP without dependent equations, and without the part of fixed torques that no forces give."""
        k, fixed = self._variables.nnormals, self._fixed
        U, s, Vt = np.linalg.svd(A[fixed], full_matrices=False)
        rank = int((s > DEPENDENT * max(s.max(initial=0.0), 1.0)).sum())
        given = (upper[k:][fixed] @ U[:, :rank]) / s[:rank]
        others = ~fixed & (upper[k:] < UNBOUNDED)
        return QP(
            H,
            f,
            np.concatenate([Vt[:rank], A[others]]),
            np.concatenate([lower[:k], given, lower[k:][others]]),
            np.concatenate([upper[:k], given, upper[k:][others]]),
            np.repeat(np.array([0, 5, 0], dtype=np.int32), [k, rank, int(others.sum())]),
        )

    def _softened(self, qp):
        """The QP whose limits may be violated."""
        k, n, m = self._variables.nnormals, len(qp.H), len(qp.sense)
        rank = int(np.count_nonzero(qp.sense))
        r = m - k - rank
        rows = np.zeros((m + r, n + k + r))
        equal, normals, above, below = np.split(np.arange(m + r), [rank, rank + k, rank + k + r])
        rows[equal, :n] = qp.A[:rank]
        rows[normals, np.arange(k)] = rows[normals, n + np.arange(k)] = 1.0
        rows[above, :n] = rows[below, :n] = qp.A[rank:]
        rows[above, n + k + np.arange(r)], rows[below, n + k + np.arange(r)] = -1.0, 1.0
        none, end = np.full(k + r, UNBOUNDED), k + rank
        costs = np.full(k + r, PENALTY * np.abs(qp.H).max())
        return QP(
            np.block([[qp.H, np.zeros((n, k + r))], [np.zeros((k + r, n)), np.diag(costs)]]),
            np.concatenate([qp.f, np.zeros(k + r)]),
            rows,
            np.concatenate([qp.lower[k:end], np.zeros(k), -none[:r], qp.lower[end:]]),
            np.concatenate([qp.upper[k:end], none[:k], qp.upper[end:], none[:r]]),
            np.repeat(np.array([5, 0], dtype=np.int32), [rank, k + 2 * r]),
            0.0,
            n,
        )

    def _within_cones(self, qp, size):
        """x of a QP, or None."""
        v, solve, first = self._variables, required_daqp().solve, len(qp.sense)
        along_x, along_y = v.tangents.T
        planes, current, grown = Planes.none(), qp, None
        for _ in range(MOST_PROGRAMS):
            H, f, A, lower, upper, sense, *_ = current
            x, _, status, info = solve(H, f, A, upper, lower, sense, **SETTINGS)
            if status < 1:
                return None
            y, lengths = info["lam"], np.hypot(x[along_x], x[along_y])
            allowed = v.friction * x[v.normals] + qp.room
            if qp.slack >= 0:
                allowed += x[qp.slack + v.normals]
            outside = lengths - allowed > EXCESS * size
            if not outside.any() and meets_conditions(qp.H, f, A, lower, upper, x, y, size):
                return x
            pressed = np.bincount(planes.cones, y[first:], len(outside))
            touched = np.flatnonzero(outside | (pressed > 0.0))
            if not touched.size:
                return None
            lengths = np.maximum(lengths, EXCESS * size)[touched]
            directions = np.array([x[along_x[touched]] / lengths, x[along_y[touched]] / lengths]).T
            planes = planes.touching(touched, directions)
            grown = grown or _WithPlanes(qp, v)
            current = grown.qp(planes, pressed[touched] / lengths)
        return None


class _WithPlanes:
    """A QP with planes of its cones."""

    def __init__(self, qp, v):
        cones = np.arange(len(v.normals))
        self._of, self._x, self._y, self._z = qp, *np.zeros((3, len(cones), len(qp.f)))
        self._x[cones, v.tangents[:, 0]] = self._y[cones, v.tangents[:, 1]] = 1.0
        self._z[cones, v.normals] = -v.friction
        if qp.slack >= 0:
            self._z[cones, qp.slack + v.normals] = -1.0
        most = MOST_PROGRAMS * len(cones)
        self._lower = np.concatenate([qp.lower, np.full(most, -UNBOUNDED)])
        self._upper = np.concatenate([qp.upper, np.full(most, qp.room)])
        self._sense = np.concatenate([qp.sense, np.zeros(most, dtype=np.int32)])

    def qp(self, planes, curvatures):
        """The QP with planes, and with the curvatures (k,) of the last k of these."""
        x, y = self._x[planes.cones], self._y[planes.cones]
        along_x, along_y = planes.directions[:, :1], planes.directions[:, 1:]
        rows = along_x * x + along_y * y + self._z[planes.cones]
        k, m = len(curvatures), len(self._of.sense) + len(rows)
        turns = along_x[-k:] * y[-k:] - along_y[-k:] * x[-k:]
        return self._of._replace(
            H=self._of.H + (turns.T * curvatures) @ turns,
            A=np.concatenate([self._of.A, rows]),
            lower=self._lower[:m],
            upper=self._upper[:m],
            sense=self._sense[:m],
        )


class Planes(NamedTuple):
    """Planes that touch cones: numbers of the cones (k,), and unit directions of their tangents (k, 2)."""

    cones: np.ndarray
    directions: np.ndarray

    @staticmethod
    def none():
        return Planes(np.zeros(0, dtype=int), np.zeros((0, 2)))

    def touching(self, cones, directions):
        """With other planes at the end, in place of those that are nearly parallel to them."""
        near = (self.cones[:, None] == cones) & (self.directions @ directions.T > PARALLEL)
        kept = ~near.any(axis=1)
        return Planes(*(np.concatenate([a[kept], b]) for a, b in zip(self, (cones, directions), strict=True)))


def _widened(qp: QP, room):
    """The QP with limits that are wider by `room`."""
    free = np.where(qp.sense == 0, room, 0.0)
    return qp._replace(lower=qp.lower - free, upper=qp.upper + free, room=room)


def force_size(squares):
    """The size (...) of forces, given the sum of squares of tau0."""
    return 1.0 + np.sqrt(squares)


def meets_conditions(H, f, A, lower, upper, x, y, size):
    """Whether x (n,) and multipliers y (rows,) are primal and dual feasible and complementary, to TOLERANCE
    of the `size` of forces and of costs."""
    k = len(y) - len(A)
    values = np.concatenate([x[:k], A @ x])
    gradient = H @ x + f + y[k:] @ A
    gradient[:k] += y[:k]
    gaps = y * (values - np.where(y > 0.0, upper, lower))
    cost = TOLERANCE * H.max() * size
    return (
        max((lower - values).max(), (values - upper).max()) <= TOLERANCE * size
        and np.abs(gradient).max() <= cost
        and np.abs(gaps).max() <= cost * size
    )
