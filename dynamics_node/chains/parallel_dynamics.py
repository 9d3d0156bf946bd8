"""Forward and inverse dynamics by the parallel solvers of Yang, Wu, Pan: JSIIA and ABIA, CFA in cfa.py."""

from collections.abc import Callable

import numpy as np

from dynamics_node.chains.cfa import Cfa
from dynamics_node.chains.chain_arrays import ChainArrays, Motions, chain_arrays
from dynamics_node.chains.tree_scan import TreeScan, transposed
from dynamics_node.chains.tridiagonal import inverse_factor
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import matvec


class Jsiia:
    """The joint-space inertia inversion algorithm: accelerations = Jsiia(motions)(torques), M qdd = torques,
    both (..., nv). The mass matrix by scans, and a dense solve (sec. IV-A)."""

    def __init__(self, motions: Motions):
        self.solve, self.M = motions.arrays.xp.linalg.solve, mass_matrix(motions)

    def __call__(self, torques):
        return self.solve(self.M, torques[..., None])[..., 0]


def mass_matrix(motions: Motions):
    """M (..., nv, nv), symmetric. All transforms come from one scan; then all vectors are in the axes of the
    root. Composite inertias (RBDA table 6.2) are then plain sums along the tree, and M_ij = S_j^T Jc_i S_i if
    j is i or above it."""
    arrays, nv = motions.arrays, motions.arrays.robot.nv
    xp, floating = arrays.xp, arrays.robot.floating_base
    body, above, subtree, roots = tree_arrays(arrays.robot, xp, arrays.dtype)
    X = motions.scan.forward(roots + 0 * motions.scan.X)  # from the root, of every state
    J = transposed(X) @ arrays.J @ X
    composite = (subtree @ J.reshape(*J.shape[:-2], 36)).reshape(J.shape)
    columns = xp.zeros((*X.shape[:-3], nv, 6), dtype=X.dtype)
    X_inverse = transposed(xp.roll(X, 3, axis=(-1, -2)))
    columns[..., arrays.v_at, :] = (X_inverse @ arrays.axes)[..., 0]
    if floating:
        columns[..., :6, :] = xp.eye(6, dtype=X.dtype)
    pairs = matvec(composite[..., body, :, :], columns) @ transposed(columns)
    M = xp.where(above, pairs, xp.where(above.T, transposed(pairs), 0))
    return M + arrays.rotors * xp.eye(nv, dtype=X.dtype)


@cached_on_robot
def tree_arrays(robot, xp, dtype):
    """The body (nv,) that every coordinate moves first; whether (nv, nv) that of the column is the row's or
    above it; 1 (n, n) where the column's body is in the subtree of the row's; unit matrices (n, 6, 6) at
    roots."""
    body, n = np.zeros(robot.nv, dtype=int), robot.nbodies
    above, roots = np.zeros((n, n), dtype=bool), np.zeros((n, 6, 6))
    for i, chain in enumerate(robot.ancestors):
        body[robot.bodies[i].joint.v] = i
        above[i, list(chain)] = True
        roots[i] = np.eye(6) * (robot.parents[i] < 0)
    of_columns = xp.asarray(above[body[:, None], body])
    return body, of_columns, xp.asarray(above.T, dtype=dtype), xp.asarray(roots, dtype=dtype)


class Abia:
    """The articulated-body inertia algorithm: accelerations = Abia(motions)(torques), M qdd = torques, both
    (..., nv).

    A hybrid: articulated inertias from the tips to the root, one after the other, on the host, then scans
    with them on the device (sec. IV-B; RBDA table 7.1). With D = S^T P S, K = P S D^-1, Y = (1 - S K^T) X,
    for every body with a joint of one coordinate:

        z = (I - Y^T)^-1 of the children's X^T K tau             nu = D^-1 (tau - S^T z)
        lambda = (I - Y)^-1 S nu                                 qdd = nu - K^T X lambda_parent
    """

    def __init__(self, motions: Motions):
        self.arrays, self.handing = motions.arrays, motions.scan
        xp, robot = self.arrays.xp, self.arrays.robot
        given = articulated(chain_arrays(robot, np, self.arrays.dtype), on_host(motions.scan.X))
        Y, self.K, self.D, base = map(xp.asarray, given)
        self.scan = TreeScan(Y, robot.parents)
        self.base = inverse_factor(xp, base) if robot.floating_base else None

    def __call__(self, torques):
        arrays = self.arrays
        tau = torques[..., arrays.v_at, None, None]
        z = self.scan.backward(self.handing.child_sums(self.K * tau))
        nu = (tau - transposed(arrays.axes) @ z) / self.D
        moved = arrays.axes * nu
        if self.base is not None:
            rest = torques[..., :6] - z[..., 0, :, 0]
            moved[..., 0, :, 0] = matvec(transposed(self.base), matvec(self.base, rest))
        handed = self.handing.inherited(self.scan.forward(moved))
        qdd = arrays.xp.zeros_like(torques)
        qdd[..., arrays.v_at] = (nu - transposed(self.K) @ handed)[..., 0, 0]
        if self.base is not None:
            qdd[..., :6] = moved[..., 0, :, 0]
        return qdd


def articulated(arrays: ChainArrays, X):
    """Y (..., n, 6, 6), K (..., n, 6, 1), D (..., n, 1, 1) and the articulated inertia (..., 6, 6) of the
    first body, by NumPy: one step for every body, over all states. For a floating base K = 0 and D = 1."""
    robot, P = arrays.robot, np.broadcast_to(arrays.J, X.shape).copy()
    Y, K, D = X.copy(), np.zeros((*X.shape[:-1], 1), X.dtype), np.ones((*X.shape[:-2], 1, 1), X.dtype)
    for i in reversed(range(int(robot.floating_base), robot.nbodies)):
        S, parent, X_up = arrays.axes[i], robot.parents[i], X[..., i, :, :]
        U = P[..., i, :, :] @ S
        D[..., i, :, :] = S.T @ U + arrays.rotors[arrays.v_at[i]]
        K[..., i, :, :] = U / D[..., i, :, :]
        left = transposed(K[..., i, :, :])
        Y[..., i, :, :] -= S * (left @ X_up)
        if parent >= 0:
            P[..., parent, :, :] += transposed(X_up) @ (P[..., i, :, :] - U * left) @ X_up
    return Y, K, D, P[..., 0, :, :]


def on_host(array):
    """An array of CuPy as one of NumPy."""
    return array.get() if hasattr(array, "get") else array


# --- all solvers --------------------------------------------------------------------------------------------

SOLVERS: dict[str, Callable] = {"cfa": Cfa, "jsiia": Jsiia, "abia": Abia}  # M x = right, for Motions


def inverse_dynamics(xp, robot: Robot, q, qd, qdd, gravity=None, f_ext=None):
    """tau (..., nv) of q (..., nq), qd, qdd (..., nv), gravity (3,) or (..., 3) in place of the robot's, and
    wrenches f_ext (..., n, 6) of the environment on the bodies: arrays of a module xp, NumPy or CuPy."""
    gravity = xp.asarray(robot.gravity, dtype=q.dtype) if gravity is None else gravity
    return Motions(xp, robot, q, qd, gravity, f_ext).torques(qdd)


def forward_dynamics(
    xp, robot: Robot, q, qd, tau, gravity=None, f_ext=None, solver="cfa", corrections=1, ordering="cr"
):
    """qdd (..., nv). corrections: number of steps of iterative refinement, each by the residual of inverse
    dynamics; ordering: one of CFA_ORDERINGS. Other arguments as in inverse_dynamics."""
    gravity = xp.asarray(robot.gravity, dtype=q.dtype) if gravity is None else gravity
    motions = Motions(xp, robot, q, qd, gravity, f_ext)
    solve = Cfa(motions, ordering) if solver == "cfa" else SOLVERS[solver](motions)
    qdd = solve(tau - motions.torques(None))
    for _ in range(corrections):
        qdd = qdd + solve(tau - motions.torques(qdd))
    return qdd
