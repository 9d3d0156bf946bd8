"""The node without ROS: plain values in; torques, or a reason for no output, out."""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions import Estimator, ExternalWrenchEstimate
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.consistency import with_sensed_tool
from dynamics_node.node.core.measured_efforts import PayloadEstimation, torques_of
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.core.torques import Torques
from dynamics_node.node.errors import NoOutput
from dynamics_node.node.state.coordinates import Coordinates
from dynamics_node.node.state.environment import ExternalWrenches, Gravity, Tilt
from dynamics_node.node.state.joint_memory import JointMemory
from dynamics_node.node.state.reference import Reference, Sample
from dynamics_node.node.state.robot_state import Base, Filtered, RobotState
from dynamics_node.node.state.sensor_readings import Estimation, SensorMessage, used_sensors
from dynamics_node.node.state.wrench_sensor import WrenchSensor
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.text import listed, one_line


class Result(NamedTuple):
    """State and torques over the coordinates of the tree. clamped: names of joints at their limit; wrenches:
    estimates of a sensor problem, exerted by the environment ON a link."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    clamped: tuple[str, ...] = ()
    wrenches: tuple[ExternalWrenchEstimate, ...] = ()


class Snapshot(NamedTuple):
    """State of a Core that another Core of the same robot copies, see Core.snapshot and Core.follow."""

    joints: JointMemory
    base: Base | None
    tilt: Tilt | None
    payloads: dict[str, tuple]
    branch: object
    filtered: Filtered | None = None


class Core:
    """One robot: its measured state, its environment, its reference and the solver. topics: {name: Topic} of
    the sensors in use."""

    def __init__(self, robot: ServedRobot, settings: Settings):
        self.robot = self.unloaded = robot
        self.payloads: dict[str, tuple] = {}
        self.state = RobotState(robot, settings)
        self.wrenches = ExternalWrenches(robot.model)
        self.sensors = self._sensors_of(robot)
        self.gravity = Gravity()
        self.reference: Reference | None = None
        self.wrench_sensor = WrenchSensor()
        self.payload_estimation = PayloadEstimation()
        self._tool: tuple = ()
        self.apply(settings)

    @property
    def model(self) -> Robot:
        return self.robot.model

    @property
    def solver(self) -> Any:
        """A function of inverse, forward or hybrid dynamics, or an Estimator."""
        return self.robot.solver

    @property
    def joints(self) -> JointMemory:
        return self.state.joints

    @property
    def coordinates(self) -> Coordinates:
        return self.state.coordinates

    @property
    def summary(self) -> str:
        """Robot, problem, algorithm and backend, for the log."""
        _, algorithm, backend = self.robot.way
        return (
            f"{one_line(self.model.name)}: {len(self.joints.names)} joints, "
            f"{self.solver.problem.kind} dynamics by {algorithm} ({backend})"
        )

    def apply(self, settings: Settings):
        """Apply settings that need no rebuild."""
        self.settings, used = settings, used_sensors(self.unloaded, settings)
        self.topics = used.topics
        self.state.apply(settings)
        self.payload_estimation.apply(settings, self.unloaded)
        if _tool(settings) != self._tool:
            self._load(self.payloads)
        self.reference_timeout = int(settings.reference_timeout * 1e9)
        self.wrench_timeout = int(settings.wrench_timeout * 1e9)
        self.sensor_timeout = int(settings.sensor_timeout * 1e9)
        self.gravity.apply(settings, self.model, used.gravity)
        self.wrench_sensor.apply(settings, self.unloaded)
        self.kind = self.solver.problem.kind  # settings.problem may be newer than the robot during a build
        self.coordinates.drive(settings.driven_joints, settings.driven_weights)
        self.torques = Torques(self.model, self.coordinates, settings)
        self.reads_velocity = self.kind != "inverse" or self.torques.reads_velocity
        number = {name: k for k, name in enumerate(self.coordinates.names)}
        self.command_index = np.array([number[name] for name in settings.command_joints], dtype=int)

    def serves(self, model: Robot) -> bool:
        """Whether a robot has the same coordinates, so that the stored state stays valid."""
        return (model.q_names, model.v_names) == (self.model.q_names, self.model.v_names)

    def replace(self, robot: ServedRobot, settings: Settings):
        """Replace the robot by one with the same joints; the measured state is kept."""
        before = self.robot.observer
        self.unloaded, self.settings = robot, settings
        self.state.replace(robot)
        self._load({link: p for link, p in self.payloads.items() if link in robot.model.frames})
        self.wrenches = self.wrenches.on(robot.model)
        self.sensors = self._sensors_of(robot, self.sensors)
        self.apply(settings)
        if before is not None and self.robot.observer is not None:
            self.robot.observer.resume(before)

    def _sensors_of(self, robot, before=None) -> "Estimation | None":
        """The readings of a sensor problem; None for other problems."""
        if not isinstance(robot.solver, Estimator):
            return None
        return Estimation(robot.solver, self.joints.names, robot.unobservable_without).resumed(before)

    def receive_sensor(self, topic: str, message: SensorMessage):
        """Store a sensor message of a topic. Raises BadMessage if it is not finite or has another frame."""
        for sensor in self.topics[topic].sensors:
            if self.sensors is not None:
                self.sensors.update(sensor, message)
            self.gravity.update(sensor, message)
            self.wrench_sensor.update(sensor, message, self.joints.position)

    def forget(self):
        """Clear the measured state and the reference, as after a clock jump."""
        self.state.reset()
        self.reference = None
        self.wrench_sensor.forget()
        self._reset_observer()

    def _reset_observer(self):
        if self.robot.observer is not None:
            self.robot.observer.reset()

    def snapshot(self) -> Snapshot:
        """The measured state, the payloads and the assembly of the loops."""
        state = self.state
        branch = self.coordinates.branch
        return Snapshot(self.joints, state.base, self.gravity.tilt, self.payloads, branch, state.filtered)

    def follow(self, snapshot: Snapshot):
        """Copy the state of another Core of the same robot."""
        self.state.joints, self.state.base, self.state.filtered = (
            snapshot.joints,
            snapshot.base,
            snapshot.filtered,
        )
        self.gravity.tilt = snapshot.tilt
        self.coordinates.branch = snapshot.branch
        if snapshot.payloads != self.payloads:
            self._load(snapshot.payloads)

    def set_payload(self, link, mass, com, inertia_com):
        """Attach a payload, which replaces the last one on this link; mass 0 removes it. Raises KeyError for
        an unknown link and ValueError for an impossible inertia; then nothing changes."""
        self.model.frame(link)
        others = {name: payload for name, payload in self.payloads.items() if name != link}
        self._load(others if mass == 0 else {**others, link: (mass, com, inertia_com)})

    def _load(self, payloads):
        used = used_sensors(self.unloaded, self.settings)
        model: Any = with_sensed_tool(self.unloaded.model, self.settings, used.wrench)
        for link, payload in payloads.items():
            model = with_payload(model, link, *payload)
        bare = model is self.unloaded.model
        self.robot = self.unloaded if bare else self.unloaded.with_inertias(model)
        self.payloads, self._tool = payloads, _tool(self.settings)
        self._reset_observer()

    def filtered_acceleration(self):
        """qdd (nv,) of the position filter, 0 for a floating base. Raises NoOutput."""
        qdd = np.zeros(self.model.nv)
        qdd[self.coordinates.own_v] = self.state.filtered_now().acceleration
        return qdd

    def reference_acceleration(self, ros_now, steady_now):
        """qdd (nv,) of the reference, 0 for joints without one."""
        return self._accelerations(self._sample(ros_now, steady_now))

    def solve(self, ros_now, steady_now) -> Result:
        """Result for the latest input; ros_now() gives ns of ROS time. Raises NoOutput."""
        sample = self._sample(ros_now, steady_now)
        if self.settings.state_source == "reference":
            q, qd = self._reference_state(sample, steady_now)
        else:
            q, qd = self.state.vectors_now(steady_now, self.reads_velocity)
        if self.sensors is not None:
            return self._estimated(self.sensors, q, qd, steady_now)
        qdd, tau = self._known(sample, q)
        f_ext = self.wrenches.f_ext(steady_now, self.wrench_timeout)
        return self._solved(q, qd, qdd, tau, f_ext, self.gravity(steady_now))

    def gravity_torques(self) -> Result:
        """The output of on_stale: gravity torques at the last position, or zeros. Raises NoOutput."""
        q = self.state.last_position()
        zero = np.zeros(self.model.nv)
        tau = zero
        if self.settings.on_stale == "gravity":
            try:
                inverse: Any = self.robot.inverse
                tau = inverse(q, zero, zero, gravity=self.gravity.last())
            except (InputError, SolutionError) as error:
                raise NoOutput(error) from None
        return self._result(q, zero, zero, tau)

    def weights(self, q):
        """Gravity torques (nv,) at the position (nq,) of a result."""
        zero = np.zeros(self.model.nv)
        q = q[: self.model.nq]  # without explicit joints
        return self.robot.nonlinear_effects(q, zero, gravity=self.gravity.last(), errors="nan")

    def require_fresh(self, steady_now):
        """Raise NoOutput if the measured state has become stale during the computation."""
        if self.settings.state_source == "measured":
            self.state.require_fresh(steady_now)

    def _reference_state(self, sample: Sample | None, steady_now):
        self.state.require_supported()
        if sample is None:
            raise NoOutput("no active reference (state_source: reference)", self.reference is not None)
        if absent := self.joints.joints_without(sample.positions):
            raise NoOutput(f"reference without position of {listed(absent)}")
        if self.reads_velocity and (absent := self.joints.joints_without(sample.velocities)):
            raise NoOutput(f"reference without velocity of {listed(absent)}")
        base = self.state.base_now(steady_now)
        return self.state.vectors(sample.positions, np.nan_to_num(sample.velocities), base)

    def _sample(self, ros_now, steady_now) -> Sample | None:
        """The active sample of the reference, None without one."""
        if self.reference is None:
            return None
        return self.reference.at(ros_now, steady_now, self.reference_timeout)

    def _accelerations(self, sample: Sample | None):
        qdd, at = np.zeros(self.model.nv), self.coordinates
        if sample is not None:
            qdd[at.own_v] = np.nan_to_num(sample.accelerations[at.own])
        return qdd

    def _known(self, sample: Sample | None, q):
        """qdd of the reference (0 without one) and tau (of the reference, else measured)."""
        qdd, at = self._accelerations(sample), self.coordinates
        if self.kind == "inverse":
            return qdd, None
        effort = self.joints.effort
        if sample is not None:
            effort = np.where(np.isnan(sample.effort), effort, sample.effort)
        return qdd, torques_of(at, q, effort, self.solver.problem.forward, "joint_states or reference")

    def _estimated(self, sensors: Estimation, q, qd, steady_now):
        readings = sensors.vector(self.joints.effort, steady_now, self.sensor_timeout)
        estimate = sensors.estimate(self.solver, q, qd, readings, self.gravity(steady_now))
        spread = self.coordinates.spread(q, qd, estimate.qdd, estimate.tau)
        return Result(*spread, wrenches=self.solver.external_wrenches(estimate))

    def _solved(self, q, qd, qdd, tau, f_ext, gravity):
        try:
            if self.kind == "inverse":
                tau = self.torques.compensation(self.solver, q, qd, qdd, f_ext, gravity)
            elif self.kind == "forward":
                qdd = self.solver(q, qd, tau, f_ext, gravity=gravity)
            else:
                qdd, tau = self.solver(q, qd, qdd, tau, f_ext, gravity=gravity)
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None
        return self._result(q, qd, qdd, tau)

    def _result(self, q, qd, qdd, tau):
        spread = self.coordinates.spread(q, qd, qdd, tau)
        tau, clamped = self.torques.clamped(spread.tau)
        return Result(spread.q, spread.qd, spread.qdd, tau, clamped)


def _tool(settings):
    """Settings that `with_sensed_tool` reads."""
    return (
        settings.wrench_sensor_name,
        settings.wrench_sensor_tool_mass,
        settings.wrench_sensor_tool_com,
    )
