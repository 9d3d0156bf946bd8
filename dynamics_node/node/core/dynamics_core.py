"""The node without ROS: messages in as plain values, torques or a reason for silence out."""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.functions import Estimator, ExternalWrenchEstimate, InputError, SolutionError
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
    """State and torques over the coordinates of the tree; clamped: names of the limited joints; wrenches: of
    a sensor problem {link: (6,) by the environment ON it, in its axes at its origin}."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    clamped: tuple[str, ...] = ()
    wrenches: tuple[ExternalWrenchEstimate, ...] = ()


class Snapshot(NamedTuple):
    """What another Core of the same robot needs to compute the same: see Core.snapshot and Core.follow."""

    joints: JointMemory
    base: Base | None
    tilt: Tilt | None
    payloads: dict[str, tuple]
    branch: object
    filtered: Filtered | None = None


class Core:
    """One robot being served: what is measured of it, what acts on it, what it is asked, and the answer.
    topics: {name: Topic} of the sensors whose messages count."""

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
        """A function of inverse, forward or hybrid dynamics or an Estimator, as its problem says."""
        return self.robot.solver

    @property
    def joints(self) -> JointMemory:
        return self.state.joints

    @property
    def coordinates(self) -> Coordinates:
        return self.state.coordinates

    @property
    def summary(self) -> str:
        """What is served, for the log."""
        _, algorithm, backend = self.robot.way
        return (
            f"{one_line(self.model.name)}: {len(self.joints.names)} joints, "
            f"{self.solver.problem.kind} dynamics by {algorithm} ({backend})"
        )

    def apply(self, settings: Settings):
        """Take over settings that need no rebuilding."""
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
        self.kind = self.solver.problem.kind  # settings.problem may be ahead, while a build is under way
        self.coordinates.drive(settings.driven_joints, settings.driven_weights)
        self.torques = Torques(self.model, self.coordinates, settings)
        self.reads_velocity = self.kind != "inverse" or self.torques.reads_velocity
        number = {name: k for k, name in enumerate(self.coordinates.names)}
        self.command_index = np.array([number[name] for name in settings.command_joints], dtype=int)

    def serves(self, model: Robot) -> bool:
        """True when a model has the same joints, so that what is remembered stays valid."""
        return (model.q_names, model.v_names) == (self.model.q_names, self.model.v_names)

    def replace(self, robot: ServedRobot, settings: Settings):
        """Go on with another ServedRobot of the same joints; what was measured is kept."""
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
        """What a sensor problem needs besides; None of other problems."""
        if not isinstance(robot.solver, Estimator):
            return None
        return Estimation(robot.solver, self.joints.names, robot.unobservable_without).resumed(before)

    def hear_sensor(self, topic: str, message: SensorMessage):
        """A message of the sensors of a topic. Raises BadMessage: not finite, or of another frame."""
        for sensor in self.topics[topic].sensors:
            if self.sensors is not None:
                self.sensors.update(sensor, message)
            self.gravity.update(sensor, message)
            self.wrench_sensor.update(sensor, message, self.joints.position)

    def forget(self):
        """Forget what was measured and what is asked, as after a jump of time."""
        self.state.reset()
        self.reference = None
        self.wrench_sensor.forget()
        self._forget_pushes()

    def _forget_pushes(self):
        if self.robot.observer is not None:
            self.robot.observer.reset()

    def snapshot(self) -> Snapshot:
        """What was measured, what is carried, and how loops are assembled."""
        state = self.state
        branch = self.coordinates.branch
        return Snapshot(self.joints, state.base, self.gravity.tilt, self.payloads, branch, state.filtered)

    def follow(self, snapshot: Snapshot):
        """Take over what another Core of the same robot knows."""
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
        """Attach a payload in place of the last one on this link; mass 0 takes it off. Raises KeyError for an
        unknown link and ValueError for a payload that no body can be; then nothing has changed."""
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
        self._forget_pushes()

    def filtered_acceleration(self):
        """qdd (nv,) by the filter of the positions, 0 of a floating base. Raises NoOutput."""
        qdd = np.zeros(self.model.nv)
        qdd[self.coordinates.own_v] = self.state.filtered_now().acceleration
        return qdd

    def referred_acceleration(self, ros_now, steady_now):
        """qdd (nv,) of the reference, 0 where nobody says."""
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
        """What holds the last position still, or zeros: the outputs of on_stale. Raises NoOutput."""
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
        """(nv,): torques of gravity alone at a position (nq,) that was solved for."""
        zero = np.zeros(self.model.nv)
        q = q[: self.model.nq]  # without explicit joints
        return self.robot.nonlinear_effects(q, zero, gravity=self.gravity.last(), errors="nan")

    def require_fresh(self, steady_now):
        """Raise NoOutput when what was measured is too old, by now, for what was computed from it."""
        if self.settings.state_source == "measured":
            self.state.require_fresh(steady_now)

    def _reference_state(self, sample: Sample | None, steady_now):
        self.state.require_supported()
        if sample is None:
            raise NoOutput("no reference in force (state_source: reference)", self.reference is not None)
        if absent := self.joints.without(sample.positions):
            raise NoOutput(f"reference without position of {listed(absent)}")
        if self.reads_velocity and (absent := self.joints.without(sample.velocities)):
            raise NoOutput(f"reference without velocity of {listed(absent)}")
        base = self.state.base_now(steady_now)
        return self.state.vectors(sample.positions, np.nan_to_num(sample.velocities), base)

    def _sample(self, ros_now, steady_now) -> Sample | None:
        """What the reference says now."""
        if self.reference is None:
            return None
        return self.reference.at(ros_now, steady_now, self.reference_timeout)

    def _accelerations(self, sample: Sample | None):
        qdd, at = np.zeros(self.model.nv), self.coordinates
        if sample is not None:
            qdd[at.own_v] = np.nan_to_num(sample.accelerations[at.own])
        return qdd

    def _known(self, sample: Sample | None, q):
        """qdd (0 where nobody says) and tau (of the reference, else measured)."""
        qdd, at = self._accelerations(sample), self.coordinates
        if self.kind == "inverse":
            return qdd, None
        effort = self.joints.effort
        if sample is not None:
            effort = np.where(np.isnan(sample.effort), effort, sample.effort)
        return qdd, torques_of(at, q, effort, self.solver.problem.forward, "joint_states or reference")

    def _estimated(self, sensors: Estimation, q, qd, steady_now):
        readings = sensors.vector(self.joints.effort, steady_now, self.sensor_timeout)
        found = sensors.estimate(self.solver, q, qd, readings, self.gravity(steady_now))
        spread = self.coordinates.spread(q, qd, found.qdd, found.tau)
        return Result(*spread, wrenches=self.solver.external_wrenches(found))

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
    """What `with_sensed_tool` depends on."""
    return (
        settings.wrench_sensor_name,
        settings.wrench_sensor_tool_mass,
        settings.wrench_sensor_tool_com,
    )
