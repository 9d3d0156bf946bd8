"""Forward and inverse dynamics by the parallel solvers, in as many states at once as fit the caches."""

from collections.abc import Callable

from dynamics_node.chains.abia import Abia
from dynamics_node.chains.cfa import Cfa
from dynamics_node.chains.chain_arrays import Motions, RobotArrays
from dynamics_node.chains.jsiia import Jsiia

_SOLVERS: dict[str, Callable] = {  # what solves M x = right for Motions; of cfa alone `way` counts
    "cfa": lambda motions, way: Cfa(motions, way=way),
    "jsiia": lambda motions, way: Jsiia(motions),
    "abia": lambda motions, way: Abia(motions),
}
SOLVERS = tuple(_SOLVERS)


def inverse_dynamics(xp, robot: RobotArrays, q, qd, qdd, gravity=None, f_ext=None):
    """tau (..., nv) of q (..., nq), qd, qdd (..., nv), gravity (3,) or (..., 3) in place of the model's, and
    wrenches f_ext (..., n, 6) of the environment on the bodies."""
    gravity = xp.asarray(robot.model.gravity, dtype=q.dtype) if gravity is None else gravity
    return Motions(xp, robot, q, qd, gravity, f_ext).torques(qdd)


def forward_dynamics(
    xp,
    robot: RobotArrays,
    q,
    qd,
    tau,
    gravity=None,
    f_ext=None,
    solver="cfa",
    corrections=1,
    tridiagonal="cr",
):
    """qdd (..., nv). corrections: how often qdd is improved by what its inverse dynamics leaves of tau, a
    step of iterative refinement; tridiagonal: how cfa eliminates, one of WAYS. Other arguments as of
    inverse_dynamics."""
    gravity = xp.asarray(robot.model.gravity, dtype=q.dtype) if gravity is None else gravity
    motions = Motions(xp, robot, q, qd, gravity, f_ext)
    solve = _SOLVERS[solver](motions, tridiagonal)
    qdd = solve(tau - motions.torques(None))
    for _ in range(corrections):
        qdd = qdd + solve(tau - motions.torques(qdd))
    return qdd
