"""The node without ROS: plain values in; torques, or a reason for no output, out."""

import numpy as np

from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions import ContactSolver
from dynamics_node.node.core.contact_loads import ContactLoads, within_limits
from dynamics_node.node.core.external_torque import torques_of
from dynamics_node.node.core.served_state import ServedState
from dynamics_node.node.core.torques import Result
from dynamics_node.node.errors import NoOutput
from dynamics_node.node.state.reference import ReferenceSample
from dynamics_node.node.state.sensor_readings import Estimation
from dynamics_node.text import listed, one_line


class Core(ServedState):
    """A ServedState with the computation of one state."""

    @property
    def summary(self) -> str:
        """Robot, problem, algorithm and backend, for the log."""
        _, algorithm, backend = self.robot.method
        return (
            f"{one_line(self.model.name)}: {len(self.joints.names)} joints, "
            f"{self.solver.problem.kind} dynamics by {algorithm} ({backend})"
        )

    def solve(self, ros_now, steady_now) -> Result:
        """Result for the latest input; ros_now() gives ns of ROS time. Raises NoOutput."""
        sample = self._sample(ros_now, steady_now)
        if self.settings.state_source == "reference":
            q, qd = self._reference_state(sample, steady_now)
        else:
            q, qd = self.state.vectors_now(steady_now, self.reads_velocity)
        gravity = self.gravity(steady_now)
        if self.sensors is not None:
            return self._estimated(self.sensors, q, qd, gravity, steady_now)
        qdd = self._accelerations(sample, steady_now)
        f_ext = self.wrenches.f_ext(steady_now, self.wrench_timeout)
        try:
            if self.kind == "inverse":
                tau, loads = self.torques.compensation(self._solved, q, qd, qdd, f_ext, gravity)
            elif self.kind == "forward":
                tau = self._known_torques(sample, q)
                qdd, loads = self._solved(q, qd, tau, f_ext=f_ext, gravity=gravity)
            else:
                known = self._known_torques(sample, q)
                qdd, tau, loads = self._solved(q, qd, qdd, known, f_ext=f_ext, gravity=gravity)
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None
        return self.torques.result(q, qd, qdd, tau)._replace(loads=loads)

    def _solved(self, *arrays, **environment):
        """Results of the solver, then ContactLoads, None without contacts."""
        if self.contacts is None:
            results = self.solver(*arrays, **environment)
            return *(results if self.kind == "hybrid" else (results,)), None
        return self.loaded(self.contacts.cones or self.solver, *arrays, **environment)

    def loaded(self, function, *arrays, **environment):
        """Results of a function of dynamics with the active contacts, then the ContactLoads."""
        if isinstance(function, ContactSolver):
            least = self.settings.on_violation == "least"
            return within_limits(function, *arrays, self.active.flags, least=least, **environment)
        *results, forces = function(*arrays, self.active.flags, **environment)
        residual = np.zeros(6)
        if self.kind != "forward" and self.model.floating_base:
            residual = results[-1][:6]
        return *results, ContactLoads(self.active.flags, forces, residual)

    def gravity_torques(self) -> Result:
        """The output of on_stale: gravity torques at the last position, or zeros. Raises NoOutput."""
        q = self.state.last_position()
        zero = np.zeros(self.model.nv)
        tau, loads = zero, None
        if self.settings.on_stale == "gravity":
            try:
                tau, loads = self._gravity(q, zero)
            except (InputError, SolutionError) as error:
                raise NoOutput(error) from None
        return self.torques.result(q, zero, zero, tau)._replace(loads=loads)

    def _gravity(self, q, zero):
        """Torques (nv,) that hold a position, and ContactLoads, None without contacts."""
        gravity, touching = self.gravity.last(), self.robot.touching
        if touching is None:
            return self.robot.inverse(q, zero, zero, gravity=gravity), None
        return self.loaded(touching.cones or touching.inverse, q, zero, zero, gravity=gravity)

    def weights(self, q):
        """Gravity torques (nv,) at the position (nq,) of a result."""
        zero = np.zeros(self.model.nv)
        q = q[: self.model.nq]  # without explicit joints
        return self.robot.nonlinear_effects(q, zero, gravity=self.gravity.last(), errors="nan")

    def require_fresh(self, steady_now):
        """Raise NoOutput if the measured state has become stale during the computation."""
        if self.settings.state_source == "measured":
            self.state.require_fresh(steady_now)

    def require_reference(self, ros_now, steady_now):
        """Raise NoOutput if the state comes from a reference that is not active."""
        if self.settings.state_source == "reference":
            self._reference_state(self._sample(ros_now, steady_now), steady_now)

    def filtered_acceleration(self):
        """qdd (nv,) of the position filter, 0 for a floating base. Raises NoOutput."""
        qdd = np.zeros(self.model.nv)
        qdd[self.coordinates.independent_v] = self.state.filtered_now().acceleration
        return qdd

    def reference_acceleration(self, ros_now, steady_now):
        """qdd (nv,) of the reference, 0 for joints without one."""
        return self._accelerations(self._sample(ros_now, steady_now), steady_now)

    def _sample(self, ros_now, steady_now) -> ReferenceSample | None:
        """The active sample of the reference, None without one."""
        if self.reference is None:
            return None
        return self.reference.at(ros_now, steady_now, self.reference_timeout)

    def _reference_state(self, sample: ReferenceSample | None, steady_now):
        self.state.require_supported()
        if sample is None:
            raise NoOutput("no active reference (state_source: reference)", self.reference is not None)
        if absent := self.joints.joints_without(sample.positions):
            raise NoOutput(f"reference without position of {listed(absent)}")
        if self.reads_velocity and (absent := self.joints.joints_without(sample.velocities)):
            raise NoOutput(f"reference without velocity of {listed(absent)}")
        base = self.state.base_now(steady_now)
        return self.state.vectors(sample.positions, np.nan_to_num(sample.velocities), base)

    def _accelerations(self, sample: ReferenceSample | None, steady_now):
        qdd, at, base = np.zeros(self.model.nv), self.coordinates, self.base_acceleration
        if base is not None and steady_now - base.received <= self.reference_timeout:
            qdd[:6] = base.values
        if sample is not None:
            qdd[at.independent_v] = np.nan_to_num(sample.accelerations[at.independent])
        return qdd

    def _known_torques(self, sample: ReferenceSample | None, q):
        """tau (nv,) of the reference, else measured."""
        effort = self.joints.effort
        if sample is not None:
            effort = np.where(np.isnan(sample.effort), effort, sample.effort)
        forward = self.solver.problem.forward
        return torques_of(self.coordinates, q, effort, forward, "joint_states or reference")

    def _estimated(self, sensors: Estimation, q, qd, gravity, steady_now):
        """The result of a sensor problem."""
        readings = sensors.vector(self.joints.effort, steady_now, self.sensor_timeout)
        estimate = sensors.estimate(self.solver, q, qd, readings, gravity)
        spread = self.coordinates.spread(q, qd, estimate.qdd, estimate.tau)
        return Result(*spread, wrenches=self.solver.external_wrenches(estimate))
