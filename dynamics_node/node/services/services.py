"""Requests -> replies of the services. Every reply has success and, without it, the reason."""

from time import monotonic_ns
from typing import Any

import numpy as np
from dynamics_interfaces.srv import (
    ForwardDynamics,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    GetQuantity,
    HybridDynamics,
    InverseDynamics,
    SetPayload,
)
from std_msgs.msg import Header

from dynamics_node.algorithms.quantity_ways import MAX_CONDITION, invert
from dynamics_node.estimation import require_bearing
from dynamics_node.functions import build
from dynamics_node.node.building.build_job import REFERENCE
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.ros.messages import (
    SWAP,
    doubles,
    inertia_message,
    inertia_numbers,
    linear_first,
    link_rows,
    matrix_message,
    plain_wrench,
    point_message,
    trajectory_message,
    vector_message,
)
from dynamics_node.node.services.quantity_service import answer_quantity
from dynamics_node.node.services.requests import (
    known_torques,
    read_batch,
    read_links,
    read_stamp,
    read_vectors,
)
from dynamics_node.robot import hybrid_dynamics
from dynamics_node.text import one_line

TARE = "tare"  # as in the service's definition, of which an older build may be installed
COMPUTING = {
    "inverse_dynamics": InverseDynamics,
    "forward_dynamics": ForwardDynamics,
    "hybrid_dynamics": HybridDynamics,
    "get_mass_matrix": GetMassMatrix,
    "get_operational_space_inertia": GetOperationalSpaceInertia,
    "get_quantity": GetQuantity,
}


def guarded(core, answer):
    """Service callback: answer(core(), request, response) -> message or None. Errors of the request become
    `success: false` and a message; core() is None while there is no model."""

    def handle(request, response):
        try:
            served = core()
            if served is None:
                raise BadMessage("no model yet")
            response.message = answer(served, request, response) or ""
            response.success = True
        except (ValueError, KeyError, ArithmeticError, NoOutput) as error:
            response = type(response)(success=False)
            response.message = one_line(error.args[0] if isinstance(error, KeyError) else error)
        except Exception as error:  # of ours, or no memory: the reply says so, and the next one is served
            response = type(response)(success=False, message=one_line(f"{type(error).__name__}: {error}"))
        return response

    return handle


def set_payload(core, request, response):
    """Answer of SetPayload: what the robot carries."""
    mass, com, inertia = inertia_numbers(request.inertia)
    if mass < 0:
        raise BadMessage(f"payload: mass {mass:g} is negative; 0 takes the payload off")
    core.set_payload(request.link, mass, com, inertia)
    carried = ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items())
    return one_line(f"payloads: {carried or 'none'}")


def calibrate_wrench_sensor(set_parameters, core, request, response):
    """Answer of CalibrateWrenchSensor. set_parameters: {name: value} -> why they were refused, or ''."""
    sensor, command = core.wrench_sensor, request.command
    if sensor.sensor is None:
        raise BadMessage("the parameter wrench_sensor.name names no sensor")
    if command == request.COLLECT:
        sensor.collect(core, monotonic_ns())
    elif command == request.RESET:
        sensor.poses.clear()
    elif command not in (request.COMPUTE, request.APPLY, TARE):
        raise BadMessage(f"unknown command {one_line(command)!r}: collect, compute, apply, tare or reset")
    response.poses = len(sensor.poses)
    if command in (request.COLLECT, request.RESET):
        return f"{response.poses} poses"
    bias_only = request.bias_only or command == TARE
    if command == TARE:
        tool, bias, bias_std = sensor.tare(core, monotonic_ns())
    else:
        tool, bias, bias_std = sensor.identified(core, bias_only)
    if command != request.COMPUTE:
        _set_calibration(set_parameters, bias, None if bias_only else tool)
    response.bias, response.bias_std = plain_wrench(bias), plain_wrench(bias_std)
    response.tool_mass, response.condition = tool.mass, tool.condition
    response.tool_com = vector_message(tool.com)
    if not bias_only:
        response.tool_mass_std, response.tool_com_std = float(tool.std[6]), vector_message(tool.std[7:])
    if command == TARE:
        return "tared"
    return f"tool {tool.mass:.4g} kg by {response.poses} poses, pose {tool.worst + 1} fits worst"


def _set_calibration(set_parameters, bias, tool):
    """Raises BadMessage with the reason why the parameters are refused. tool: None leaves it as it is."""
    values: dict[str, Any] = {"wrench_sensor.bias": doubles(bias[SWAP]).tolist()}
    if tool is not None:
        values |= {"wrench_sensor.tool_mass": tool.mass, "wrench_sensor.tool_com": tool.com.tolist()}
    if refused := set_parameters(values):
        raise BadMessage(refused)


class Services:
    """Replies of the COMPUTING services. core(): the robot to compute with, None while there is no model."""

    def __init__(self, core):
        self._core = core

    def callback(self, kind):
        """Of a service of COMPUTING."""
        answers = {
            InverseDynamics: self._inverse,
            ForwardDynamics: self._forward,
            HybridDynamics: self._hybrid,
            GetMassMatrix: self._mass_matrix,
            GetOperationalSpaceInertia: self._operational_space,
            GetQuantity: self._quantity,
        }
        return guarded(self._core, answers[kind])

    def _inverse(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        tau = core.robot.inverse(batch.q, batch.qd, batch.qdd, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, request, batch, batch.qdd, tau)

    def _forward(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        tau = known_torques(core, batch, core.robot.forward.problem.forward)
        qdd = core.robot.forward(batch.q, batch.qd, tau, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, request, batch, qdd, tau)

    def _hybrid(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        problem = hybrid_dynamics(core.model, request.forward_joints)
        if core.settings.driven_joints:
            raise BadMessage("hybrid dynamics and driven.joints do not go together: ask inverse or forward")
        known = known_torques(core, batch, problem.forward)
        solver = build(core.model, problem, backend="numpy")  # compiling would take longer than solving
        qdd, tau = solver(batch.q, batch.qd, batch.qdd, known, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, request, batch, qdd, tau)

    def _mass_matrix(self, core, request, response):
        q, qd = read_vectors(core, request.state, monotonic_ns())
        order = linear_first(core.model)
        names = [core.model.v_names[k] for k in order]
        M = core.robot.mass_matrix(q)
        h = core.robot.nonlinear_effects(q, qd, gravity=core.gravity(monotonic_ns()))
        response.header = _header(core, request)
        response.mass_matrix = matrix_message(M[np.ix_(order, order)], names, names)
        response.bias_names, response.bias = names, doubles(h[order])

    def _operational_space(self, core, request, response):
        links = read_links(core, request.links)
        q, _ = read_vectors(core, request.state, monotonic_ns())
        compute = core.robot.operational_space_inertia(links, request.reference or REFERENCE)
        inverse, J = compute(q)
        rows, order = link_rows(links)
        columns = linear_first(core.model)
        names = [core.model.v_names[k] for k in columns]
        inertia, condition = invert(inverse)
        response.header = _header(core, request)
        response.inertia_inverse = matrix_message(inverse[np.ix_(order, order)], rows, rows)
        response.jacobian = matrix_message(J[np.ix_(order, columns)], rows, names)
        response.condition_number = condition
        if inertia is None:
            return f"Lambda^-1 is singular (condition {condition:.3g} >= {MAX_CONDITION:g}): no inertia"
        response.inertia = matrix_message(inertia[np.ix_(order, order)], rows, rows)
        return ""

    def _quantity(self, core, request, response):
        answer_quantity(core, request, response, monotonic_ns())
        response.header = _header(core, request)

    def _solution(self, core, request, batch, qdd, tau):
        at = core.coordinates
        q, *rates = at.spread(batch.q, batch.qd, qdd, tau)
        rows = zip(q[:, at.q_at], *(rate[:, at.v_at] for rate in rates), strict=True)
        points = [point_message(*row) for row in rows]
        for point, time in zip(points, batch.times, strict=True):
            if time is not None:
                point.time_from_start = time
        header = (read_stamp(core, request.state), core.model.base_link)
        return trajectory_message(list(core.joints.names), points, header)


def _header(core, request) -> Header:
    return Header(stamp=read_stamp(core, request.state), frame_id=core.model.base_link)


def estimate_payload(set_parameters, core, request, response):
    """Answer of EstimatePayload. set_parameters: {name: value} -> why they were refused, or ''."""
    command, own = request.command, core.payload_estimation
    if command == request.START:
        return _start(set_parameters, core, request.link or own.link or core.settings.payload_estimation_link)
    if command == request.STOP:
        own.stop()
        response.samples = own.samples
        return f"stopped, {own.samples} states count"
    if command not in (request.COMPUTE, request.APPLY):
        raise BadMessage(f"unknown command {one_line(command)!r}: start, compute, apply or stop")
    found = own.found(request.link)
    _tell(found, response)
    told = f"{found.link}: {found.mass:.4g} kg, give or take {found.mass_std:.2g}, by {found.samples} states"
    if command == request.APPLY:
        if refusal := found.refusal:
            raise BadMessage(f"not applied: {refusal}")
        told = set_payload(core, SetPayload.Request(link=found.link, inertia=response.inertia), None)
    elif found.refusal:
        told = f"{told}; apply would refuse: {found.refusal}"
    if own.running and own.reason:
        told = f"{told}; states do not count now: {own.reason}"
    return one_line(told)


def _start(set_parameters, core, link):
    if not link:
        raise BadMessage("name the link of which is to be estimated what it carries")
    own = core.payload_estimation
    require_bearing(core.model, link)
    if refused := set_parameters({"payload_estimation.link": link}):
        raise BadMessage(refused)
    if own.start(core.unloaded, link):
        return one_line(f"{link}: states count from now on")
    return one_line(f"{link}: states count as soon as what estimates is built")


def _tell(found, response):
    response.samples = found.samples
    response.inertia = inertia_message(found.mass, found.com, found.inertia)
    response.mass_std, response.com_std = found.mass_std, vector_message(found.com_std)
    response.covariance = doubles(found.covariance.ravel())
    response.not_excited = list(found.not_excited)
    response.condition = found.condition
