"""Services for trajectories of planners, with the payloads of the robot: whether it can execute one, and the
times of its path."""

import numpy as np
from builtin_interfaces.msg import Duration

from dynamics_node.node.core.torques import joint_friction
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import doubles, point_message, trajectory_message
from dynamics_node.node.services.requests import read_limits, read_state, require_known
from dynamics_node.node.state.reference import MAX_NUMBERS, read_points
from dynamics_node.text import one_line
from dynamics_node.trajectory import CheckFunctions, CheckOptions, JointTrajectory, checked, scaled, verdict
from dynamics_node.trajectory.trajectory_check import require_few_samples
from dynamics_node.trajectory.trajectory_messages import in_order, require_joints

TIME_OPTIMAL = "time_optimal"
MAX_OPTIMIZED = 100_000  # samples x joints, of which toppra solves 30 000 a second
LOADS = ("peak_effort", "rms_effort", "thermal_effort", "peak_power", "energy")


def check_trajectory(core, request, response, now):
    """Fill in a CheckTrajectory reply; returns its message. now: steady ns. Raises BadMessage, NoOutput and
    the errors of `checked`."""
    check = _checked(core, request, read_limits(core, request), now)
    response.feasible = check.feasible
    response.slowdown, response.at_rest = check.slowdown.factor, check.slowdown.at_rest
    response.largest_payload = float("nan")
    payloads = []
    if link := request.payload_link:
        com = request.payload_com
        response.largest_payload = check.largest_payload(link, (com.x, com.y, com.z))
        payloads = [(link, response.largest_payload)]
    _fill(response, check)
    response.solution = request.trajectory
    for point, efforts in zip(response.solution.points, in_order(check, check.trajectory.names), strict=True):
        point.effort = doubles(efforts)
    return one_line("; ".join([*verdict(check, payloads), *check.notes]))


def scale_trajectory(core, request, response, now):
    """Fill in a ScaleTrajectory reply; returns its message. now: steady ns. Raises BadMessage, NoOutput and
    the errors of `scaled`."""
    limits, method = read_limits(core, request), request.method or TIME_OPTIMAL
    most = MAX_OPTIMIZED if method == TIME_OPTIMAL else MAX_NUMBERS
    check = _checked(core, request, limits, now, most)
    try:
        result = scaled(check, method, limits, most)
    except ImportError as error:  # the text has the package to install
        raise BadMessage(f"{error}; or set method to uniform") from None
    before, after = (each.time[-1] - each.time[0] for each in (check, result))
    response.factor = float(after / before) if before > 0 else 1.0
    _fill(response, result)
    points, efforts = result.trajectory, in_order(result, result.trajectory.names)
    response.solution = trajectory_message(
        list(points.names),
        [
            trajectory_point(*row)
            for row in zip(points.time, points.q, points.qd, points.qdd, efforts, strict=True)
        ],
        (request.trajectory.header.stamp, request.trajectory.header.frame_id),
    )
    duration = f"{response.factor:.4g} times the duration"
    return one_line("; ".join([duration, *verdict(result), *result.notes]))


def _checked(core, request, limits, now, most=MAX_NUMBERS):
    """The TrajectoryCheck of a request. most: of samples times joints."""
    if core.settings.driven_joints:
        raise BadMessage("trajectories are not supported with driven.joints")
    points, start = read_motion(core, request, now, most)
    model, at = core.model, core.coordinates
    functions = CheckFunctions(
        model,
        core.robot.inverse,
        gravity=core.gravity(now),
        friction=joint_friction(model, core.settings) if request.friction else False,
        close=at.following if model.constrained else None,
    )
    options = CheckOptions(start, limits, request.window, request.rate, MAX_NUMBERS)
    return checked(functions, points, options)


def read_motion(core, request, now, most):
    """The points of the trajectory of a request, and q (nq,) at its start. Raises BadMessage, and InputError
    for unknown joints and too many points."""
    names = list(request.trajectory.joint_names)
    time, table = read_points(names, request.trajectory.points)
    nothing = np.full((len(time), len(names)), np.nan)
    values = (rows if rows.size else nothing for rows in table[:3])
    points = JointTrajectory(tuple(names), time, *values)
    require_joints(points, [body.joint.name for body in core.model.bodies])
    require_few_samples(len(points), core.model, most)
    return points, _start(core, request.state, points, now)


def _fill(response, check):
    """The most used limit, and the loads of the motors."""
    worst = check.worst
    if worst is not None:
        response.joint, response.quantity = worst.joint, worst.quantity
        response.time, response.value = worst.time, worst.value
        response.limit, response.used = worst.limit, worst.used
    response.joint_names = list(check.robot.v_names)
    for name in LOADS:
        setattr(response, name, doubles(getattr(check, name)))
    response.peak_total_power = check.peak_total_power


def trajectory_point(time, q, qd, qdd, effort):
    """A JointTrajectoryPoint; NaN: no velocities or accelerations."""
    qd, qdd = (() if np.isnan(row[0]) else row for row in (qd, qdd))
    point, (sec, nanosec) = point_message(q, qd, qdd, effort), divmod(round(time * 1e9), 10**9)
    point.time_from_start = Duration(sec=sec, nanosec=nanosec)
    return point


def _start(core, message, points, now):
    """q (nq,) of the state. Raises BadMessage for joints whose position neither has."""
    state = read_state(core, message, now, complete=False)
    at, given = core.coordinates, set(points.names)
    absent = [k for k in np.arange(len(at.names))[at.independent] if at.names[k] not in given]
    require_known([at.names[k] for k in absent], state.position[None, absent], "position", state.why)
    q = np.zeros(core.model.nq)
    q[at.q_at[: at.counted]] = state.position[: at.counted]
    if state.base is not None:
        q[:7] = state.base.pose
    return q
