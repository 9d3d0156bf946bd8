"""Dynamics at positions at which the independent joints do not determine the motion of closed loops.

The other algorithms express all rates by those of the independent joints. Here the accelerations a of all
joints of the tree follow from Gauss' principle: they minimize 1/2 a^T M a + a^T (c - tau), subject to K a = k
and to known accelerations of joints. The multipliers of the latter are the unknown torques. No choice of
independent joints is necessary, and at regular positions the results are the same (Udwadia and Kalaba,
Analytical Dynamics, ch. 3; Sathya and Carpentier, Constrained Articulated Body Algorithms for Closed-Loop
Mechanisms, whose proximal steps converge to them).

Orthonormal bases: N of the motions K v = 0, D of those at which the independent joints stand still, and U of
the combinations of rows with U^T K = 0. Where branches of assembly meet, U^T (dK/dt) v = 0 for the rates of a
branch. Its derivative is a condition for the accelerations of the branch.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_rates import jerk_program, velocity_program
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.health import why_open, why_singular_loop
from dynamics_node.algorithms.pivots import ZERO as MASSLESS
from dynamics_node.algorithms.pivots import inertia_scale
from dynamics_node.algorithms.rates import SINGULAR
from dynamics_node.algorithms.results import NearestDynamics
from dynamics_node.algorithms.rnea import rnea
from dynamics_node.errors import UndeterminedError
from dynamics_node.robot.loops.equations import counting_equations
from dynamics_node.symbolic import interpret
from dynamics_node.text import listed

ZERO = SINGULAR**-0.5  # sizes relative to the largest that count as zero: the limit of regular positions
STEPS = 20  # of Newton's method for the rates of a branch
SMALL = 1e-6  # rad/s^2 or m/s^2; accelerations that count as zero


class _Split(NamedTuple):
    """A singular value decomposition A = U diag(sizes) V^T, range and null spaces apart. gap: the largest
    relative size that counts as zero, and the smallest that does not."""

    U: np.ndarray
    sizes: np.ndarray
    V: np.ndarray
    U_null: np.ndarray
    V_null: np.ndarray
    gap: tuple[float, float]

    def solve(self, right):
        """The smallest x of those with the least |A x - right|."""
        return self.V @ ((self.U.T @ right) / self.sizes)

    def solve_transposed(self, right):
        """The smallest x of those with the least |A^T x - right|."""
        return self.U @ ((self.V.T @ right) / self.sizes)


def _split(A, largest=None) -> _Split:
    """largest: the reference of relative sizes, by default the largest one."""
    U, sizes, Vt = np.linalg.svd(A)
    largest = sizes.max(initial=0.0) if largest is None else largest
    relative = sizes / (largest or 1.0)
    rank = int((relative > ZERO).sum())
    gap = relative[rank:].max(initial=0.0), relative[:rank].min(initial=1.0)
    return _Split(U[:, :rank], sizes[:rank], Vt[:rank].T, U[:, rank:], Vt[rank:].T, gap)


def nearest_dynamics(
    robot, forward, q, qd, qdd=None, tau=None, f_ext=None, gravity=None, rates=None
) -> NearestDynamics:
    """The NearestDynamics of one state. forward (nv,) bool: where tau is known, and qdd elsewhere; rates (nv
    of the tree,): see RobotFunction.nearest. Raises UndeterminedError."""
    if reason := why_open(robot, q):
        raise UndeterminedError(reason)
    tree, independent, forward = robot.tree, robot.independent, np.asarray(forward, dtype=bool)
    loops, mass = _Loops(robot, q), _Mass(robot.tree, q)
    moved = _split(loops.motions[independent], 1.0)
    D = loops.motions @ moved.V_null
    v = loops.motions @ moved.solve(qd)
    if rates is None:
        v = v + D @ mass.solve(D, -D.T @ mass.M @ v)
        a, N = loops.least_accelerations(v), loops.motions
    else:
        v = loops.on_branch(v + D @ (D.T @ (rates - v)), D)
        a, N = loops.of_branch(v)

    known, applied = _split(N[independent[~forward]], 1.0), np.zeros(tree.nv)
    if forward.any():
        applied[independent[forward]] = tau[forward]
    if not forward.all():
        a = a + N @ known.solve(qdd[~forward] - a[independent[~forward]])
    free = N @ known.V_null
    a = a + free @ mass.solve(free, free.T @ (applied - rnea(tree, q, v, a, f_ext, gravity)))
    if rates is None:
        loops.require_one_branch(v, a)

    torques = applied[independent]
    torques[~forward] = known.solve_transposed(N.T @ (rnea(tree, q, v, a, f_ext, gravity) - applied))
    gaps = [loops.gap, moved.gap, known.gap]
    gap = np.array([max(zero for zero, _ in gaps), min(counted for _, counted in gaps)])
    return NearestDynamics(a[independent], torques, v, a, plain_basis(D), plain_basis(moved.U_null), gap)


class _Loops:
    """K a = k of all clusters at q (nq,). motions: N (nv of the tree, m). Raises UndeterminedError for more
    independent equations than dependent joints."""

    def __init__(self, robot, q):
        self._tree, self._q = robot.tree, q
        self._clusters = [cluster for cluster in robot.clusters if cluster.dependent]
        tied = {v for cluster in self._clusters for v in (*cluster.independent, *cluster.dependent)}
        blocks = [np.eye(robot.tree.nv)[:, [v for v in range(robot.tree.nv) if v not in tied]]]
        self._splits = []
        for cluster in self._clusters:
            at = [*cluster.independent, *cluster.dependent]
            split = _split(self._equations(cluster, "K", np.zeros(robot.tree.nv))[:, at])
            if len(split.sizes) > len(cluster.dependent):  # a singular position has fewer
                raise UndeterminedError(why_singular_loop(robot, q))
            block = np.zeros((robot.tree.nv, split.V_null.shape[1]))
            block[at] = split.V_null
            self._splits.append((cluster, at, split))
            blocks.append(block)
        self.motions = np.hstack(blocks)
        gaps = [split.gap for _, _, split in self._splits]
        self.gap = max((zero for zero, _ in gaps), default=0.0), min((one for _, one in gaps), default=1.0)

    def _equations(self, cluster, name, v):
        """K (rows, nv of the tree), or k or its change (..., rows) at rates v (..., nv of the tree), relative
        to the usual sizes of rows."""
        rows, sizes = counting_equations(self._tree, cluster)
        q = np.broadcast_to(self._q, (*v.shape[:-1], len(self._q)))
        program = jerk_program if name == "change" else velocity_program
        values = interpret(program(self._tree, cluster.constraints), q=q, qd=v)[name]
        return values[rows] / sizes[:, None] if name == "K" else values[..., rows] / sizes

    def least_accelerations(self, v):
        """The smallest a (nv of the tree,) of K a = k at rates v."""
        a = np.zeros(self._tree.nv)
        for cluster, at, split in self._splits:
            a[at] = split.solve(self._equations(cluster, "k", v))
        return a

    def require_one_branch(self, v, a):
        """Raise UndeterminedError if accelerations a depend on the branch of assembly at rates v."""
        B, _ = self._branch(v)
        largest = max(np.abs(a).max(initial=0.0), SMALL)
        if np.linalg.norm(B @ self.motions) * np.linalg.norm(v) ** 2 > ZERO * largest:
            raise UndeterminedError(
                f"branches of assembly meet at this position ({self._names}), and qd does not select one: "
                "`nearest` reads the rates of all joints"
            )

    def on_branch(self, v, D):
        """The rates of a branch near v, which differ along D. Raises UndeterminedError without any."""
        for _ in range(STEPS):
            B, _ = self._branch(v)
            missed = B @ v
            v = v - D @ _split(2.0 * B @ D, 1.0).solve(missed)
            if np.linalg.norm(missed) <= ZERO * np.linalg.norm(v):
                break  # the last step squares it
        B, _ = self._branch(v)
        if np.linalg.norm(B @ v) > ZERO * np.linalg.norm(v):
            raise UndeterminedError(f"no motion through this position has these rates: {self._names}")
        return v

    def of_branch(self, v):
        """Accelerations a (nv of the tree,) of the branch with rates v, and a basis of their differences."""
        a, N = self.least_accelerations(v), self.motions
        B, b = self._branch(v)
        split = _split(B @ N, 1.0)
        return a + N @ split.solve(b - B @ a), N @ split.V_null

    def _branch(self, v):
        """B (rows, nv of the tree) and b (rows,): rates v of a branch satisfy B v = 0, and accelerations
        B a = b. B is relative to the size of K, and to that of v."""
        n, speed = self._tree.nv, np.linalg.norm(v)
        B, b = [np.zeros((0, n))], [np.zeros(0)]
        for cluster, _, split in self._splits:
            if not speed or not split.U_null.size:
                continue
            along, U = v / speed, split.U_null / split.sizes.max(initial=1.0)
            ahead, back = (self._equations(cluster, "k", along + sign * np.eye(n)) for sign in (1.0, -1.0))
            B.append(((back - ahead) @ U / 4.0).T)  # k is quadratic in rates: the mixed term of -k
            b.append(speed**2 * (self._equations(cluster, "change", along) @ U) / 3.0)
        return np.vstack(B), np.concatenate(b)

    @property
    def _names(self):
        clusters = [cluster for cluster, _, split in self._splits if split.U_null.size]
        return listed(sorted(one.name for cluster in clusters for one in cluster.constraints), 12)


class _Mass:
    """The mass matrix M of the tree at q, in subspaces."""

    def __init__(self, tree, q):
        self._tree, self.M, self._scale = tree, crba(tree, q), inertia_scale(tree, q)

    def solve(self, W, right):
        """x of W^T M W x = right. Raises UndeterminedError for motions that move no mass."""
        if not W.shape[1]:
            return np.zeros(0)
        inner = W.T @ self.M @ W
        size = np.sqrt(self._scale @ (W * W))
        size[size == 0] = 1.0
        values, vectors = np.linalg.eigh(inner / np.outer(size, size))
        if values[0] < MASSLESS:
            motion = np.abs(W @ (vectors[:, 0] / size))
            moving = np.flatnonzero(motion > ZERO * motion.max()).tolist()
            names = ", ".join(repr(self._tree.v_names[v]) for v in moving)
            raise UndeterminedError(
                f"{names} can move almost without moving any mass at this position: torques do not determine "
                "the accelerations (singular mass matrix)"
            )
        return vectors @ ((vectors.T @ (right / size)) / values) / size


def plain_basis(basis):
    """Orthonormal rows (m, n) that span the same space as the orthonormal columns of `basis` (n, m). They are
    the same for every basis of that space."""
    left, rows = basis @ basis.T, np.zeros((basis.shape[1], basis.shape[0]))
    for row in rows:
        sizes = np.diag(left)
        k = int(np.argmax(sizes > (1.0 - ZERO) * sizes.max()))  # of equal ones the first
        row[:] = left[k] / np.sqrt(left[k, k])
        left = left - np.outer(row, row)
    return rows
