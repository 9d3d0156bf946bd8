"""Positions of a robot as points of a manifold: steps along velocities, differences, random positions.

A step of a floating base or of a ball joint is the exponential of SE(3) or SO(3), that of every other joint a
sum. Velocities are those of qd, so a step of a floating base is angular and linear, in body axes.
"""

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import close_loops
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.errors import InputError
from dynamics_node.functions.arguments import Arguments, Signature, robot_signature
from dynamics_node.functions.checks import shaped
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls

UNBOUNDED = np.pi, 1.0  # rad and m from zero, for a random position without a limit


@explains_wrong_calls
def integrate(robot: Robot, q: ArrayLike, v: ArrayLike) -> np.ndarray:
    """The position after a unit of time at constant velocity.

    Parameters
    ----------
    robot : Robot
        The robot.
    q : array_like (..., nq)
        Positions; closed ones for a robot with loops.
    v : array_like (..., nv)
        Velocity times time: rad and m. A floating base moves along a screw: v[0:6] is angular and linear, in
        body axes.

    Returns
    -------
    ndarray (..., nq)
        Quaternions are of unit length. Closed loops stay closed: independent joints move by v. The
        others are closed from the positions that their rates lead to, so the branch of assembly is kept.

    Raises
    ------
    InputError
        For wrong shapes, numbers that are not finite, and quaternions that are not of unit length.
    ClosureError
        If a loop cannot be closed after the step, or is at a singular position before it.

    See Also
    --------
    difference : its inverse.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> robot = dn.parse_robot(quadruped(), floating_base=True)
    >>> q, qd, dt = robot.neutral(), np.zeros(robot.nv), 0.01
    >>> qd[2], qd[3] = np.pi, 1.0  # yaw rate, forward velocity
    >>> x, y, z = dn.integrate(robot, q, qd * dt)[:3]
    >>> f"{x:.4f} {y:.4f}"
    '0.0100 0.0002'
    """
    given = _checked(robot, q=q, v=v)
    return _integrated(robot, given["q"], given["v"])


@explains_wrong_calls
def difference(robot: Robot, q0: ArrayLike, q1: ArrayLike) -> np.ndarray:
    """The constant velocity that takes one position to another in a unit of time.

    Parameters
    ----------
    robot : Robot
        The robot.
    q0, q1 : array_like (..., nq)
        Positions; closed ones for a robot with loops.

    Returns
    -------
    ndarray (..., nv)
        rad and m: ``integrate(robot, q0, difference(robot, q0, q1))`` is q1. Continuous joints, ball joints
        and floating bases turn the shorter way, by at most pi. The result may then differ from q1 by whole
        turns of a continuous joint, or the sign of a quaternion.

    Raises
    ------
    InputError
        As in `integrate`.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> robot = dn.parse_robot(quadruped(), floating_base=True)
    >>> q0, q1 = robot.neutral(), robot.neutral()
    >>> q1[3:7] = 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)  # a quarter turn about z
    >>> v = dn.difference(robot, q0, q1)
    >>> (v[:3] / np.pi).round(3)  # the angular part
    array([0. , 0. , 0.5])
    >>> bool(np.allclose(dn.integrate(robot, q0, v), q1))
    True
    """
    given = _checked(robot, q0=q0, q1=q1)
    return _difference(robot, given["q0"], given["q1"])


@explains_wrong_calls
def interpolate(robot: Robot, q0: ArrayLike, q1: ArrayLike, u: ArrayLike) -> np.ndarray:
    """A position on the way from one position to another at constant velocity.

    Parameters
    ----------
    robot : Robot
        The robot.
    q0, q1 : array_like (..., nq)
        Positions; closed ones for a robot with loops.
    u : array_like (...)
        The fraction of the way: 0 at q0, 1 at q1; over the same batch.

    Returns
    -------
    ndarray (..., nq)
        ``integrate(robot, q0, u * difference(robot, q0, q1))``.

    Raises
    ------
    InputError, ClosureError
        As in `integrate`.

    Examples
    --------
    >>> q = dn.interpolate(robot, np.zeros(7), np.full(7, 0.4), [0.0, 0.25, 1.0])
    >>> q.shape
    (3, 7)
    >>> q[:, 0]
    array([0. , 0.1, 0.4])
    """
    given = _checked(robot, q0=q0, q1=q1, u=np.asarray(u)[..., None])
    return _integrated(robot, given["q0"], given["u"] * _difference(robot, given["q0"], given["q1"]))


@explains_wrong_calls
def integrate_derivatives(robot: Robot, q: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of `integrate` along the tangent space.

    Parameters
    ----------
    robot : Robot
        A robot without closed loops.
    q : array_like (..., nq)
        Positions.
    v : array_like (..., nv)
        Velocity times time, rad and m.

    Returns
    -------
    dq, dv : ndarray (..., nv, nv)
        A change of q by d and of v by w changes the result by ``dq @ d + dv @ w``. Each is a velocity in the
        body axes of its position. Both are the identity for joints with one coordinate.

    Raises
    ------
    InputError
        As in `integrate`.
    ValueError
        For a robot with closed loops.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> robot = dn.parse_robot(quadruped(), floating_base=True)
    >>> v = np.zeros(robot.nv)
    >>> v[2] = np.pi / 2  # a quarter turn about z
    >>> dq, dv = dn.integrate_derivatives(robot, robot.neutral(), v)
    >>> dq.shape == dv.shape == (robot.nv, robot.nv)
    True
    >>> round(float(dq[1, 0]), 3)  # a turn about x before the step is one about -y after it
    -1.0
    """
    _require_tree(robot, "integrate_derivatives")
    return _step_derivatives(robot, _checked(robot, q=q, v=v)["v"])


@explains_wrong_calls
def difference_derivatives(robot: Robot, q0: ArrayLike, q1: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of `difference` along the tangent space.

    Parameters
    ----------
    robot : Robot
        A robot without closed loops.
    q0, q1 : array_like (..., nq)
        Positions.

    Returns
    -------
    dq0, dq1 : ndarray (..., nv, nv)
        A change of q0 by the velocity d and of q1 by w changes the result by ``dq0 @ d + dq1 @ w``. They are
        minus the identity and the identity for joints with one coordinate.

    Raises
    ------
    InputError
        As in `integrate`.
    ValueError
        For a robot with closed loops.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> robot = dn.parse_robot(quadruped(), floating_base=True)
    >>> q = dn.random_configuration(robot, random=0)
    >>> dq0, dq1 = dn.difference_derivatives(robot, q, q)
    >>> bool(np.allclose(dq0, -np.eye(robot.nv)) and np.allclose(dq1, np.eye(robot.nv)))
    True
    """
    _require_tree(robot, "difference_derivatives")
    given = _checked(robot, q0=q0, q1=q1)
    dq, dv = _step_derivatives(robot, _difference(robot, given["q0"], given["q1"]))
    inverse = np.linalg.inv(dv)
    return -inverse @ dq, inverse


@explains_wrong_calls
def random_configuration(
    robot: Robot,
    shape: int | tuple[int, ...] = (),
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    random: np.random.Generator | int | None = None,
) -> np.ndarray:
    """Random positions within the limits of the joints.

    Parameters
    ----------
    robot : Robot
        The robot.
    shape : int or tuple of int
        Shape of the batch.
    lower, upper : array_like (nq,), optional
        Bounds, rad and m, by default `Robot.lower_position_limits` and `Robot.upper_position_limits`; those
        of quaternions are ignored. Without a bound angles are within pi, lengths within 1 m of zero.
    random : numpy.random.Generator or int, optional
        The generator, or its seed.

    Returns
    -------
    ndarray (*shape, nq)
        Joints are uniform between their bounds, orientations uniform over all rotations. The joints of a
        closed loop are at one of some tens of closed positions; bounds do not apply to them.

    Raises
    ------
    InputError
        For bounds of another shape, or a lower bound above the upper one.

    Examples
    --------
    >>> q = dn.random_configuration(robot, 1000, random=0)
    >>> q.shape
    (1000, 7)
    >>> bool((q >= robot.lower_position_limits).all() and (q <= robot.upper_position_limits).all())
    True
    """
    random = np.random.default_rng(random)
    low, high = _bounds(robot, lower, upper)
    batch = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    count = int(np.prod(batch))
    q = closed_samples(robot, count, random)
    drawn = random.uniform(low, high, (count, robot.nq))
    free = _free_positions(robot)
    q[:, free] = drawn[:, free]
    return q.reshape(*batch, robot.nq)


# --- checks -------------------------------------------------------------------------------------------------


def _checked(robot, **arrays):
    """The arrays over one batch. Raises InputError."""
    arguments = Arguments(_signature(robot), arrays)
    arguments.require_valid()
    return arguments.spread()


@cached_on_robot
def _signature(robot) -> Signature:
    of_state = robot_signature(robot)
    positions = dict.fromkeys(("q", "q0", "q1"), of_state.inputs["q"])
    quaternions = tuple((name, at, joint) for name in positions for _, at, joint in of_state.quaternions)
    inputs = positions | {"v": of_state.inputs["qd"], "u": ((1,), ("the part of the way",))}
    return Signature(robot.name, inputs, quaternions)


def _require_tree(robot, name):
    if robot.constrained:
        loops = ", ".join(repr(constraint.name) for constraint in robot.constraints)
        raise InputError(f"{name} is for robots without closed loops; {robot.name} has {loops}")


def _bounds(robot, lower, upper):
    """Finite lower and upper bounds (nq,)."""
    low = _bound("lower", robot.lower_position_limits if lower is None else lower, robot)
    high = _bound("upper", robot.upper_position_limits if upper is None else upper, robot)
    reach = np.full(robot.nq, UNBOUNDED[0])
    for joint in robot.tree.independent_joints:
        for k in joint.type.lengths:
            reach[joint.q.start + k] = UNBOUNDED[1]
    low, high = np.where(np.isfinite(low), low, np.minimum(-reach, high - reach)), high
    high = np.where(np.isfinite(high), high, np.maximum(reach, low + reach))
    if (bad := low > high).any():
        k = int(np.argmax(bad))
        raise InputError(f"lower[{k}] ({robot.q_names[k]}) is {low[k]:g}, above upper[{k}], {high[k]:g}")
    return low, high


def _bound(name, value, robot):
    bound = shaped(name, value, ((robot.nq,), robot.q_names))
    if (bad := np.isnan(bound)).any():
        k = int(np.argmax(bad))
        raise InputError(f"{name}[{k}] ({robot.q_names[k]}) is not a number")
    return bound


@cached_on_robot
def _free_positions(robot) -> np.ndarray:
    """Indices in q outside quaternions and closed loops."""
    closed = {v for cluster in robot.clusters if cluster.constraints for v in cluster.independent}
    closed |= {v for cluster in robot.clusters for v in cluster.dependent}
    places = [
        k
        for joint in robot.tree.independent_joints
        if not closed & {*joint.moved_by}
        for k in range(joint.q.start, joint.q.stop)
    ]
    quaternions = {k for _, at in robot.quaternions for k in range(at.start, at.stop)}
    return np.array([k for k in places if k not in quaternions], dtype=int)


# --- steps --------------------------------------------------------------------------------------------------


def _integrated(robot, q, v):
    """q (..., nq) after v (..., nv), over one batch."""
    if robot.constrained:
        v, _ = spread_rates(robot, q, v)
    out = np.array(np.broadcast_to(q, (*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), robot.nq)))
    places, columns, others = _joints(robot.tree)
    out[..., places] = q[..., places] + v[..., columns]
    for joint in others:
        out[..., joint.q] = joint.type.integrate(q[..., joint.q], v[..., joint.v])
    return close_loops(robot, out) if robot.constrained else out


def _difference(robot, q0, q1):
    """v (..., nv), over one batch."""
    tree = robot.tree
    places, columns, others = _joints(tree)
    v = np.zeros((*q0.shape[:-1], tree.nv))
    v[..., columns] = q1[..., places] - q0[..., places]
    for joint in (*others, *(joint for joint in tree.independent_joints if joint.type.wraps)):
        v[..., joint.v] = joint.type.logarithm(q1[..., joint.q], q0[..., joint.q])
    return v[..., robot.independent]


def _step_derivatives(robot, v):
    """Derivatives (..., nv, nv) by the position before a step v (..., nv), and by the step."""
    dq, dv = (np.array(np.broadcast_to(np.eye(robot.nv), (*v.shape, robot.nv))) for _ in range(2))
    for joint in _joints(robot.tree)[2]:
        dq[..., joint.v, joint.v], dv[..., joint.v, joint.v] = joint.type.step_derivatives(v[..., joint.v])
    return dq, dv


@cached_on_robot
def _joints(tree):
    """Indices in q and in v of joints with one coordinate; and the other joints."""
    scalar = [joint for joint in tree.independent_joints if joint.type.is_scalar]
    others = [joint for joint in tree.independent_joints if not joint.type.is_scalar]
    return [joint.q.start for joint in scalar], [joint.v.start for joint in scalar], others
