"""Replies of the services. Every reply has success, and a message with the reason of a failure."""

from functools import lru_cache
from time import monotonic_ns
from typing import Any

import numpy as np
from dynamics_interfaces.msg import NamedMatrix
from dynamics_interfaces.srv import (
    CheckTrajectory,
    ForwardDynamics,
    GetCapability,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    GetQuantity,
    HybridDynamics,
    InverseDynamics,
    PlanStop,
    ScaleTrajectory,
    SetPayload,
)
from std_msgs.msg import Header

from dynamics_node.algorithms.quantity_methods import MAX_CONDITION, invert
from dynamics_node.estimation import require_bearing
from dynamics_node.functions import build
from dynamics_node.node.building.build_job import CONES, REFERENCE
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.ros.messages import (
    AXES,
    SWAP,
    WRENCH_AXES,
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
from dynamics_node.node.services.capability_service import answer_capability
from dynamics_node.node.services.quantity_service import answer_quantity
from dynamics_node.node.services.requests import (
    known_torques,
    read_active,
    read_batch,
    read_links,
    read_stamp,
    read_vectors,
    with_base_accelerations,
)
from dynamics_node.node.services.stop_service import plan_stop
from dynamics_node.node.services.trajectory_service import check_trajectory, scale_trajectory
from dynamics_node.node.state.joint_memory import LARGEST, possible
from dynamics_node.robot import hybrid_dynamics
from dynamics_node.text import listed, one_line

MOST_PROGRAMS = 10_000  # points with friction cones, which take up to a millisecond each
TARE = "tare"  # constant of the service, which older builds of dynamics_interfaces lack
COMPUTING = {
    "inverse_dynamics": InverseDynamics,
    "forward_dynamics": ForwardDynamics,
    "hybrid_dynamics": HybridDynamics,
    "get_mass_matrix": GetMassMatrix,
    "get_operational_space_inertia": GetOperationalSpaceInertia,
    "get_quantity": GetQuantity,
    "get_capability": GetCapability,
    "check_trajectory": CheckTrajectory,
    "scale_trajectory": ScaleTrajectory,
    "plan_stop": PlanStop,
}


def guarded(core, answer):
    """Service callback from answer(core(), request, response) -> message or None. Errors give
    `success: false` and a message; core() is None without a robot."""

    def handle(request, response):
        try:
            served = core()
            if served is None:
                raise BadMessage("no robot yet")
            response.message = answer(served, request, response) or ""
            response.success = True
        except NoOutput as no_output:
            response = type(response)(success=False, message=one_line(no_output.with_remedy))
        except (ValueError, KeyError, ArithmeticError) as error:
            response = type(response)(success=False)
            response.message = one_line(error.args[0] if isinstance(error, KeyError) else error)
        except Exception as error:  # internal, or no memory: the next request is served
            response = type(response)(success=False, message=one_line(f"{type(error).__name__}: {error}"))
        return response

    return handle


def set_payload(core, request, response):
    """Reply of SetPayload: the payloads of the robot."""
    mass, com, inertia = inertia_numbers(request.inertia)
    if mass < 0:
        raise BadMessage(f"payload: mass {mass:g} is negative; 0 removes the payload")
    if not possible(np.array([mass, *com, *np.ravel(inertia)])).all():
        raise BadMessage(f"payload: a number is not finite, or above {LARGEST:g}")
    core.set_payload(request.link, mass, com, inertia)
    payloads = ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items())
    return one_line(f"payloads: {payloads or 'none'}")


def calibrate_wrench_sensor(set_parameters, core, request, response):
    """Reply of CalibrateWrenchSensor. set_parameters: {name: value} -> reason of a rejection, or ''."""
    sensor, command = core.wrench_sensor, request.command
    if sensor.sensor is None:
        raise BadMessage("no sensor to calibrate: set the parameter wrench_sensor.name")
    if command == request.COLLECT:
        sensor.collect(core, monotonic_ns())
    elif command == request.RESET:
        sensor.poses.clear()
    elif command not in (request.COMPUTE, request.APPLY, TARE):
        raise BadMessage(
            f"unknown command {one_line(command)!r}; known: collect, compute, apply, tare, reset"
        )
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
    return (
        f"tool {tool.mass:.4g} kg from {response.poses} poses; pose {tool.worst + 1} has the largest residual"
    )


def _set_calibration(set_parameters, bias, tool):
    """Set the parameters. tool: None keeps the tool. Raises BadMessage with the reason of a rejection."""
    values: dict[str, Any] = {"wrench_sensor.bias": doubles(bias[SWAP]).tolist()}
    if tool is not None:
        values |= {"wrench_sensor.tool_mass": tool.mass, "wrench_sensor.tool_com": tool.com.tolist()}
    if reason := set_parameters(values):
        raise BadMessage(reason)


class Services:
    """Replies of the COMPUTING services. core(): the Core to compute with, None without a robot."""

    def __init__(self, core):
        self._core = core

    def callback(self, kind):
        """Callback of a service of COMPUTING."""
        answers = {
            InverseDynamics: self._inverse,
            ForwardDynamics: self._forward,
            HybridDynamics: self._hybrid,
            GetMassMatrix: self._mass_matrix,
            GetOperationalSpaceInertia: self._operational_space,
            GetQuantity: self._quantity,
            GetCapability: self._capability,
            CheckTrajectory: self._check,
            ScaleTrajectory: self._scale,
            PlanStop: self._stop,
        }
        return guarded(self._core, answers[kind])

    def _inverse(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        batch = batch._replace(qdd=with_base_accelerations(core, batch.qdd, request.base_accelerations))
        arrays, gravity = (batch.q, batch.qd, batch.qdd), core.gravity(monotonic_ns())
        violation = ""
        if (active := read_active(core, request.active_contacts)) is None:
            tau = core.robot.inverse(*arrays, gravity=gravity)
        else:
            tau, forces, violation = _forces_of_contacts(core, *arrays, active, gravity)
            response.contact_forces = _table(forces, core.contacts.rows.names)
        response.base_wrenches = _of_base(core, tau, WRENCH_AXES)
        response.solution = self._solution(core, request, batch, batch.qdd, tau)
        return violation

    def _forward(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        tau = known_torques(core, batch, core.robot.forward.problem.forward)
        arrays, gravity = (batch.q, batch.qd, tau), core.gravity(monotonic_ns())
        if (active := read_active(core, request.active_contacts)) is None:
            qdd = core.robot.forward(*arrays, gravity=gravity)
        else:
            qdd, forces = core.robot.touching.forward(*arrays, active, gravity=gravity)
            response.contact_forces = _table(forces, core.contacts.rows.names)
        response.base_accelerations = _of_base(core, qdd, AXES)
        response.solution = self._solution(core, request, batch, qdd, tau)

    def _hybrid(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        batch = batch._replace(qdd=with_base_accelerations(core, batch.qdd, request.base_accelerations))
        active, names = read_active(core, request.active_contacts), tuple(request.forward_joints)
        contacts = () if active is None else core.contacts.rows.contacts
        problem = hybrid_dynamics(core.model, names, contacts)
        if core.settings.driven_joints:
            raise BadMessage(
                "hybrid dynamics does not support driven.joints: use inverse or forward dynamics"
            )
        known = known_torques(core, batch, problem.forward)
        arrays, gravity = (batch.q, batch.qd, batch.qdd, known), core.gravity(monotonic_ns())
        function = _interpreted(core.model, names, contacts)
        if active is None:
            qdd, tau = function(*arrays, gravity=gravity)
        else:
            qdd, tau, forces = function(*arrays, active, gravity=gravity)
            response.contact_forces = _table(forces, core.contacts.rows.names)
        response.base_wrenches = _of_base(core, tau, WRENCH_AXES)
        response.base_accelerations = _of_base(core, qdd, AXES)
        response.solution = self._solution(core, request, batch, qdd, tau)

    def _mass_matrix(self, core, request, response):
        q, qd = read_vectors(core, request.state, monotonic_ns())
        order = linear_first(core.model)
        names = [core.model.v_names[k] for k in order]
        M = core.robot.mass_matrix(q)
        h = core.robot.nonlinear_effects(q, qd, gravity=core.gravity(monotonic_ns()))
        response.header = _header(core, request)
        response.mass_matrix = matrix_message(M[np.ix_(order, order)], names, names)
        response.nonlinear_effects = doubles(h[order])

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

    def _capability(self, core, request, response):
        answer_capability(core, request, response, monotonic_ns())
        response.header = _header(core, request)

    def _check(self, core, request, response):
        return check_trajectory(core, request, response, monotonic_ns())

    def _scale(self, core, request, response):
        return scale_trajectory(core, request, response, monotonic_ns())

    def _stop(self, core, request, response):
        return plan_stop(core, request, response, monotonic_ns())

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


def _forces_of_contacts(core, q, qd, qdd, active, gravity):
    """Torques (k, nv) and contact forces (k, rows) of the parameter contact_forces, and words for the first
    violated limits. Raises BadMessage, and SolutionError if no forces keep the limits."""
    touching = core.robot.touching
    if (cones := touching.cones) is None:
        return *touching.inverse(q, qd, qdd, active, gravity=gravity), ""
    if len(q) > MOST_PROGRAMS:
        raise BadMessage(f"{len(q)} points; the limit is {MOST_PROGRAMS} with contact_forces {CONES}")
    errors = "least" if core.settings.on_violation == "least" else "raise"
    result = cones(q, qd, qdd, active, gravity=gravity, errors=errors)
    for k in range(len(q)):
        if violated := cones.violated(type(result)(*(array[k] for array in result))):
            return result.tau, result.contact_forces, f"least violation at state {k}: {listed(violated)}"
    return result.tau, result.contact_forces, ""


@lru_cache(maxsize=16)
def _interpreted(robot, forward_joints, contacts):
    """Hybrid dynamics by NumPy: compilation would take longer than one solve."""
    return build(robot, hybrid_dynamics(robot, forward_joints, contacts), backend="numpy")


def _table(array, columns):
    """A NamedMatrix of an array (k, columns), one row a state."""
    return matrix_message(array, [f"state {k}" for k in range(len(array))], columns)


def _of_base(core, array, axes):
    """A NamedMatrix of the entries of a floating base in an array (k, nv); empty without one."""
    return _table(array[:, SWAP], axes) if core.model.floating_base else NamedMatrix()


def _header(core, request) -> Header:
    return Header(stamp=read_stamp(core, request.state), frame_id=core.model.base_link)


def estimate_payload(set_parameters, core, request, response):
    """Reply of EstimatePayload. set_parameters: {name: value} -> reason of a rejection, or ''."""
    command, estimation = request.command, core.payload_estimation
    if command == request.START:
        return _start(
            set_parameters, core, request.link or estimation.link or core.settings.payload_estimation_link
        )
    if command == request.STOP:
        estimation.stop()
        response.samples = estimation.samples
        return f"stopped with {estimation.samples} samples"
    if command not in (request.COMPUTE, request.APPLY):
        raise BadMessage(f"unknown command {one_line(command)!r}; known: start, compute, apply, stop")
    estimate = estimation.estimate(request.link)
    _fill_payload_estimate(estimate, response)
    mass = f"{estimate.mass:.4g} kg (standard deviation {estimate.mass_std:.2g} kg)"
    message = f"{estimate.link}: {mass} from {estimate.samples} samples"
    if command == request.APPLY:
        if refusal := estimate.refusal:
            raise BadMessage(f"not applied: {refusal}")
        message = set_payload(core, SetPayload.Request(link=estimate.link, inertia=response.inertia), None)
    elif estimate.refusal:
        message = f"{message}; cannot be applied: {estimate.refusal}"
    if estimation.running and estimation.reason:
        message = f"{message}; new states are skipped: {estimation.reason}"
    return one_line(message)


def _start(set_parameters, core, link):
    if not link:
        raise BadMessage("set the link whose payload is estimated")
    estimation = core.payload_estimation
    require_bearing(core.model, link)
    if reason := set_parameters({"payload_estimation.link": link}):
        raise BadMessage(reason)
    if estimation.start(core.unloaded, link):
        return one_line(f"{link}: estimation started")
    return one_line(f"{link}: estimation starts when its functions are built")


def _fill_payload_estimate(estimate, response):
    response.samples = estimate.samples
    response.inertia = inertia_message(estimate.mass, estimate.com, estimate.inertia)
    response.mass_std, response.com_std = estimate.mass_std, vector_message(estimate.com_std)
    response.covariance = doubles(estimate.covariance.ravel())
    response.not_excited = list(estimate.not_excited)
    response.condition = estimate.condition
