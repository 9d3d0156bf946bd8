"""The service plan_stop: the shortest stop within the limits of the motors, with the payloads."""

import numpy as np
from builtin_interfaces.msg import Time

from dynamics_node.functions.checks import finite
from dynamics_node.node.core.torques import joint_friction
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import doubles, trajectory_message, vector_message
from dynamics_node.node.services.requests import read_accelerations, read_limits, read_links, read_vectors
from dynamics_node.node.services.trajectory_service import MAX_OPTIMIZED, read_motion, trajectory_point
from dynamics_node.text import listed, one_line
from dynamics_node.trajectory import CheckFunctions, MotionState, StopOptions, stopped, stopped_on_path
from dynamics_node.trajectory.motion_limits import described
from dynamics_node.trajectory.trajectory_messages import in_order


def plan_stop(core, request, response, now):
    """Fill in a PlanStop reply; returns its message. now: steady ns. Raises BadMessage, NoOutput and the
    errors of `stopped` and `stopped_on_path`."""
    if core.settings.driven_joints:
        raise BadMessage("trajectories are not supported with driven.joints")
    links = read_links(core, request.links) if request.links or core.settings.tip_links else []
    smooth = request.smooth or len(request.accelerations) > 0
    options = StopOptions(read_limits(core, request), links, request.longest, smooth)
    model, trajectory = core.model, request.trajectory
    functions = CheckFunctions(
        model,
        core.robot.inverse,
        gravity=core.gravity(now),
        friction=joint_friction(model, core.settings) if request.friction else False,
        close=core.coordinates.following if model.constrained else None,
    )
    plan = _on_path if trajectory.joint_names or trajectory.points else _together
    return _fill(response, plan(core, request, functions, options, now), model)


def _together(core, request, functions, options, now):
    """The StoppingTrajectory of a state."""
    joints = request.state.joints
    if joints.name and not len(joints.velocity):
        raise BadMessage("the state has no velocities: a stop needs them")
    if len(request.accelerations) and not joints.name:
        raise BadMessage("accelerations belong to state.joints.name, which is empty")
    if request.begin:
        raise BadMessage("begin belongs to trajectory, which is empty")
    q, qd = read_vectors(core, request.state, now)
    qdd = read_accelerations(core, joints.name, request.accelerations)
    return stopped(functions, MotionState(q, qd, qdd), options)


def _on_path(core, request, functions, options, now):
    """The StoppingTrajectory on the path of a trajectory."""
    if len(request.accelerations):
        raise BadMessage("accelerations belong to a stop without a trajectory: leave them out")
    points, start = read_motion(core, request, now, MAX_OPTIMIZED)
    begin = float(finite("begin", request.begin, ()))
    try:
        return stopped_on_path(functions, points, begin, start, options)
    except ImportError as error:  # the text has the package to install
        raise BadMessage(f"{error}; or leave out the trajectory: all joints then stop together") from None


def _fill(response, stop, model):
    points, check = stop.trajectory, stop.check
    response.time, response.joint_names = stop.time, list(points.names)
    response.distance = doubles(np.array(list(stop.distance.values())))
    columns = [model.v_names.index(name) for name in points.names]
    response.peak_effort = doubles(check.peak_effort[columns])
    response.link_names = list(stop.links)
    response.path = doubles(np.array([travel.path for travel in stop.links.values()]))
    response.displacement = [vector_message(travel.displacement) for travel in stop.links.values()]
    efforts = in_order(check, points.names)
    rows = zip(points.time, points.q, points.qd, points.qdd, efforts, strict=True)
    header = Time(), model.base_link
    response.solution = trajectory_message(
        list(points.names), [trajectory_point(*row) for row in rows], header
    )
    words = [f"stop of {stop.time:.4g} s"]
    if (limit := stop.limit) is not None:
        response.joint, response.quantity = limit.joint, limit.quantity
        response.value, response.limit, response.used = limit.value, limit.limit, limit.used
        words.append(f"{described(limit)}, prevents a shorter one")
    if stop.links:
        words.append(listed([f"{name} moves {travel.path:.4g} m" for name, travel in stop.links.items()]))
    return one_line("; ".join([*words, *check.notes]))
