"""The computing services: requests -> replies. Every reply says success and, if not, why."""

import numpy as np
from dynamics_interfaces.srv import (
    ForwardDynamics,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    HybridDynamics,
    InverseDynamics,
)

from dynamics_node.algorithms import bias, crba, operational_space_inertia
from dynamics_node.algorithms.operational_space import MAX_CONDITION, invert
from dynamics_node.node.core import Silence, read_base
from dynamics_node.node.joint_memory import BadMessage, JointMemory
from dynamics_node.node.messages import (
    doubles,
    linear_first,
    link_rows,
    matrix_message,
    point_message,
    pose_numbers,
    trajectory_message,
    twist_numbers,
)
from dynamics_node.node.reference import read_points
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
        states = self._states(core, request)
        tau = core.robot.inverse(states.q, states.qd, states.qdd, gravity=core.gravity)
        response.solution = self._solution(core, states, states.qdd, tau)

    def _forward(self, core, request, response):
        states = self._states(core, request)
        qdd = core.robot.forward(states.q, states.qd, states.tau, gravity=core.gravity)
        response.solution = self._solution(core, states, qdd, states.tau)

    def _hybrid(self, core, request, response):
        states = self._states(core, request)
        solver = build(core.model, hybrid_dynamics(core.model, request.forward_joints))
        qdd, tau = solver(states.q, states.qd, states.qdd, states.tau, gravity=core.gravity)
        response.solution = self._solution(core, states, qdd, tau)

    def _mass_matrix(self, core, request, response):
        q, qd, _ = self._state(core, request.state)
        order = linear_first(core.model)
        names = [core.model.v_names[k] for k in order]
        M = crba(core.model, q)[np.ix_(order, order)]
        response.mass_matrix = matrix_message(M, names, names)
        response.bias = doubles(bias(core.model, q, qd, gravity=core.gravity)[order])

    def _operational_space(self, core, request, response):
        links = list(request.links) or list(core.settings.tip_links)
        if not links:
            raise BadMessage("no links: name some in the request or in the parameter tip_links")
        q, _, _ = self._state(core, request.state)
        reference = request.reference or "world_aligned"
        inverse, J = operational_space_inertia(core.model, q, links, reference)
        rows, order = link_rows(links)
        columns = linear_first(core.model)
        inertia, condition = invert(inverse)
        response.inertia_inverse = matrix_message(inverse[np.ix_(order, order)], rows, rows)
        names = [core.model.v_names[k] for k in columns]
        response.jacobian = matrix_message(J[np.ix_(order, columns)], rows, names)
        response.condition_number = condition
        if inertia is None:
            return f"Lambda^-1 is singular (condition {condition:.3g} >= {MAX_CONDITION:g}): no inertia"
        response.inertia = matrix_message(inertia[np.ix_(order, order)], rows, rows)
        return ""

    def _state(self, core, state, joints_needed=True):
        """q, qd and measured effort of a DynamicsState; an empty one is the latest measured state."""
        now = self._clock_now()
        if not state.joints.name:
            if not joints_needed and not state.has_base:
                return self._measured_or_blank(core, now)
            q, qd = core.measured_state(now)
            return q, qd, core.joints.effort
        memory = JointMemory(core.model)
        given = state.joints
        memory.update(given.name, given.position, given.velocity, given.effort, 0, now)
        if missing := memory.missing():
            raise BadMessage(f"state without joint {', '.join(missing)}")
        velocity = memory.velocity if len(given.velocity) else np.zeros(len(core.q_at))
        if np.isnan(velocity).any():
            raise BadMessage(f"state with velocity NaN of {', '.join(memory.without(velocity))}")
        q, qd = np.zeros(core.model.nq), np.zeros(core.model.nv)
        q[core.q_at], qd[core.v_at] = memory.position, velocity
        self._place_base(core, state, q, qd, now)
        return q, qd, memory.effort

    def _measured_or_blank(self, core, now):
        """The latest state, or NaN where it is not known: the points may say all there is to say."""
        try:
            return (*core.measured_state(now), core.joints.effort)
        except Silence:
            q, qd = np.full(core.model.nq, np.nan), np.zeros(core.model.nv)
            if core.model.floating_base:
                raise
            return q, qd, np.full(len(core.q_at), np.nan)

    def _place_base(self, core, state, q, qd, now):
        if not core.model.floating_base:
            return
        base = core.base
        if state.has_base:
            base = read_base(pose_numbers(state.base_pose), twist_numbers(state.base_twist), 0, now)
        if base is None:
            raise BadMessage("floating base: the state has no base and there was no odom message")
        q[:7], qd[:6] = base.pose, base.twist

    def _clock_now(self):
        from time import monotonic_ns

        return monotonic_ns()

    def _states(self, core, request):
        """The batch of a request: the state, overridden by the points where they have entries."""
        return _Batch.read(core, self._state(core, request.state, not request.points.points), request.points)

    def _solution(self, core, states, qdd, tau):
        at = core.v_at
        rows = zip(
            states.q[:, core.q_at], states.qd[:, at], qdd[:, at], tau[:, at], states.times, strict=True
        )
        points = []
        for q, qd, a, t, time in rows:
            point = point_message(q, qd, a, t)
            point.time_from_start = time
            points.append(point)
        header = (self._clock.now().to_msg(), core.model.base_link)
        return trajectory_message(list(core.joints.names), points, header)


class _Batch:
    """q (k, nq), qd, qdd, tau (k, nv) and the times of k points."""

    def __init__(self, q, qd, qdd, tau, times):
        self.q, self.qd, self.qdd, self.tau, self.times = q, qd, qdd, tau, times

    @classmethod
    def read(cls, core, state, trajectory):
        from builtin_interfaces.msg import Duration

        q, qd, effort = state
        tau = np.zeros(core.model.nv)
        tau[core.v_at] = np.nan_to_num(effort)
        points = trajectory.points
        if not points:
            return cls(q[None], qd[None], np.zeros((1, core.model.nv)), tau[None], [Duration()])
        _, table = read_points(trajectory.joint_names, points)
        number = {name: k for k, name in enumerate(core.joints.names)}
        unknown = [name for name in trajectory.joint_names if name not in number]
        if unknown:
            raise BadMessage(f"points name unknown joint {', '.join(unknown)}")
        target = np.array([number[name] for name in trajectory.joint_names], dtype=int)
        count = len(points)
        columns = ((q, core.q_at), (qd, core.v_at), (np.zeros(core.model.nv), core.v_at), (tau, core.v_at))
        filled = []
        for (default, at), given in zip(columns, table, strict=True):
            rows = np.tile(default, (count, 1))
            own = rows[:, at[target]]
            rows[:, at[target]] = np.where(np.isnan(given), own, given)
            filled.append(rows)
        if np.isnan(filled[0]).any():
            lacking = [core.joints.names[k] for k in np.flatnonzero(np.isnan(filled[0][:, core.q_at]).any(0))]
            raise BadMessage(f"neither points nor state give the position of {', '.join(lacking)}")
        return cls(*filled, [point.time_from_start for point in points])
