"""The computing services: requests -> replies. Every reply says success and, if not, why."""

from time import monotonic_ns

import numpy as np
from dynamics_interfaces.srv import (
    ForwardDynamics,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    HybridDynamics,
    InverseDynamics,
    SetPayload,
)

from dynamics_node.algorithms import bias, crba, operational_space_inertia
from dynamics_node.algorithms.operational_space import MAX_CONDITION, invert
from dynamics_node.loops import (
    Mechanism,
    mechanism_bias,
    mechanism_mass_matrix,
    mechanism_operational_space_inertia,
)
from dynamics_node.node.core import Silence
from dynamics_node.node.joint_memory import BadMessage
from dynamics_node.node.messages import (
    doubles,
    inertia_numbers,
    linear_first,
    link_rows,
    matrix_message,
    point_message,
    trajectory_message,
)
from dynamics_node.node.requests import known_torques, read_batch, read_vectors
from dynamics_node.problem import hybrid_dynamics
from dynamics_node.solver import build


class Services:
    """Answers from the Core that `core()` returns (None while there is no model)."""

    def __init__(self, node, core):
        self._core, self._clock = core, node.get_clock()
        for kind, name, answer in (
            (InverseDynamics, "inverse_dynamics", self._inverse),
            (ForwardDynamics, "forward_dynamics", self._forward),
            (HybridDynamics, "hybrid_dynamics", self._hybrid),
            (GetMassMatrix, "get_mass_matrix", self._mass_matrix),
            (GetOperationalSpaceInertia, "get_operational_space_inertia", self._operational_space),
            (SetPayload, "set_payload", self._payload),
        ):
            node.create_service(kind, f"~/{name}", self._guarded(answer))

    def _guarded(self, answer):
        """Errors of the request become `success: false` and a message."""

        def handle(request, response):
            try:
                core = self._core()
                if core is None:
                    raise BadMessage("no model yet")
                response.message = answer(core, request, response) or ""
                response.success = True
            except (ValueError, KeyError, ArithmeticError, Silence) as error:
                response.success = False
                response.message = str(error.args[0] if isinstance(error, KeyError) else error)
            return response

        return handle

    def _inverse(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        tau = core.robot.inverse(batch.q, batch.qd, batch.qdd, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, batch, batch.qdd, tau)

    def _forward(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        tau = known_torques(core, batch, core.robot.forward.problem.forward)
        qdd = core.robot.forward(batch.q, batch.qd, tau, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, batch, qdd, tau)

    def _hybrid(self, core, request, response):
        batch = read_batch(core, request.state, request.points, monotonic_ns())
        problem = hybrid_dynamics(core.model, request.forward_joints)
        if core.settings.driven_joints:
            raise BadMessage("hybrid dynamics and driven.joints do not go together: ask inverse or forward")
        known = known_torques(core, batch, problem.forward)
        solver = build(core.model, problem, backend="numpy")  # compiling would take longer than solving
        qdd, tau = solver(batch.q, batch.qd, batch.qdd, known, gravity=core.gravity(monotonic_ns()))
        response.solution = self._solution(core, batch, qdd, tau)

    def _mass_matrix(self, core, request, response):
        q, qd = read_vectors(core, request.state, monotonic_ns())
        order = linear_first(core.model)
        names = [core.model.v_names[k] for k in order]
        loops = isinstance(core.model, Mechanism)
        M = (mechanism_mass_matrix if loops else crba)(core.model, q)
        h = (mechanism_bias if loops else bias)(core.model, q, qd, gravity=core.gravity(monotonic_ns()))
        response.mass_matrix = matrix_message(M[np.ix_(order, order)], names, names)
        response.bias = doubles(h[order])

    def _operational_space(self, core, request, response):
        links = list(request.links) or list(core.settings.tip_links)
        if not links:
            raise BadMessage("no links: name some in the request or in the parameter tip_links")
        q, _ = read_vectors(core, request.state, monotonic_ns())
        reference = request.reference or "world_aligned"
        loops = isinstance(core.model, Mechanism)
        compute = mechanism_operational_space_inertia if loops else operational_space_inertia
        inverse, J = compute(core.model, q, links, reference)
        rows, order = link_rows(links)
        columns = linear_first(core.model)
        names = [core.model.v_names[k] for k in columns]
        inertia, condition = invert(inverse)
        response.inertia_inverse = matrix_message(inverse[np.ix_(order, order)], rows, rows)
        response.jacobian = matrix_message(J[np.ix_(order, columns)], rows, names)
        response.condition_number = condition
        if inertia is None:
            return f"Lambda^-1 is singular (condition {condition:.3g} >= {MAX_CONDITION:g}): no inertia"
        response.inertia = matrix_message(inertia[np.ix_(order, order)], rows, rows)
        return ""

    def _payload(self, core, request, response):
        mass, com, inertia = inertia_numbers(request.inertia)
        if mass < 0:
            raise BadMessage(f"payload: mass {mass:g} is negative; 0 takes the payload off")
        core.set_payload(request.link, mass, com, inertia)
        carried = ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items())
        return f"payloads: {carried or 'none'}"

    def _solution(self, core, batch, qdd, tau):
        at = core.coordinates
        q, *rates = at.spread(batch.q, batch.qd, qdd, tau)
        rows = zip(q[:, at.q_at], *(rate[:, at.v_at] for rate in rates), strict=True)
        points = [point_message(*row) for row in rows]
        for point, time in zip(points, batch.times, strict=True):
            if time is not None:
                point.time_from_start = time
        header = (self._clock.now().to_msg(), core.model.base_link)
        return trajectory_message(list(core.joints.names), points, header)
