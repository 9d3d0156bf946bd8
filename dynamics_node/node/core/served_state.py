"""A robot in use with its payloads, measured state and environment, and their exchange. Without ROS."""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.functions import Estimator
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.consistency import with_sensed_tool
from dynamics_node.node.core.contact_loads import ContactMap
from dynamics_node.node.core.payload_estimation import PayloadEstimation
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.core.torques import Torques
from dynamics_node.node.state.active_contacts import ActiveContacts
from dynamics_node.node.state.coordinates import JointCoordinates
from dynamics_node.node.state.environment import ContactImu, ExternalWrenches, Gravity, Tilt
from dynamics_node.node.state.joint_memory import JointMemory
from dynamics_node.node.state.reference import BaseAcceleration, Reference
from dynamics_node.node.state.robot_state import Base, Filtered, RobotState
from dynamics_node.node.state.sensor_readings import Estimation, SensorMessage, used_sensors
from dynamics_node.node.state.wrench_sensor import WrenchSensor
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload


class Snapshot(NamedTuple):
    """State that another ServedState of the same robot copies, see ServedState.snapshot and follow."""

    joints: JointMemory
    base: Base | None
    tilt: Tilt | None
    payloads: dict[str, tuple]
    branch: object
    filtered: Filtered | None = None


class ServedState:
    """One robot: its measured state, its environment and its reference. robot: with payloads and the tool of
    the force/torque sensor; unloaded: without; model: the Robot of `robot`; solver: a function of inverse,
    forward or hybrid dynamics, or an Estimator; topics: {name: Topic} of the sensors in use; contacts: None
    without contacts."""

    robot: ServedRobot
    model: Robot
    solver: Any

    def __init__(self, robot: ServedRobot, settings: Settings):
        self.unloaded = robot
        self.payloads: dict[str, tuple] = {}
        self.state = RobotState(robot, settings)
        self.wrenches = ExternalWrenches(robot.model)
        self.sensors = self._sensors_of(robot)
        self.gravity, self.contact_imu = Gravity(), ContactImu()
        self.reference: Reference | None = None
        self.base_acceleration: BaseAcceleration | None = None
        self.wrench_sensor = WrenchSensor()
        self.payload_estimation = PayloadEstimation()
        self.active = ActiveContacts(_contacts(robot))
        self._load({}, settings)
        self.apply(settings)

    @property
    def joints(self) -> JointMemory:
        return self.state.joints

    @property
    def coordinates(self) -> JointCoordinates:
        return self.state.coordinates

    def apply(self, settings: Settings):
        """Apply settings that need no rebuild."""
        self.settings, used = settings, used_sensors(self.unloaded, settings)
        self.topics = used.topics
        self.state.apply(settings)
        self.active.apply(settings.active_contacts)
        self.payload_estimation.apply(settings, self.unloaded)
        if _tool(settings) != self._tool:
            self._load(self.payloads, settings)
        self.reference_timeout = int(settings.reference_timeout * 1e9)
        self.wrench_timeout = int(settings.wrench_timeout * 1e9)
        self.sensor_timeout = int(settings.sensor_timeout * 1e9)
        self.gravity.apply(settings, self.model, used.gravity)
        self.contact_imu.apply(settings, used.contact_imu)
        self.wrench_sensor.apply(settings, self.unloaded)
        self.kind = self.solver.problem.kind  # settings.problem may be newer than the robot during a build
        self.coordinates.drive(settings.driven_joints, settings.driven_weights)
        self.torques = Torques(self.model, self.coordinates, settings, self.unloaded.limits)
        self.reads_velocity = self.kind != "inverse" or self.torques.reads_velocity
        number = {name: k for k, name in enumerate(self.coordinates.names)}
        self.command_index = np.array([number[name] for name in settings.command_joints], dtype=int)

    def serves(self, model: Robot) -> bool:
        """Whether a robot has the same coordinates, so that the stored state stays valid."""
        return (model.q_names, model.v_names) == (self.model.q_names, self.model.v_names)

    def replace(self, robot: ServedRobot, settings: Settings):
        """Replace the robot by one with the same joints; the measured state is kept."""
        before, self.unloaded = self.robot.observer, robot
        self.state.replace(robot)
        payloads = {link: payload for link, payload in self.payloads.items() if link in robot.model.frames}
        self._load(payloads, settings)
        self.wrenches = self.wrenches.on(robot.model)
        self.sensors = self._sensors_of(robot, self.sensors)
        self.active = self.active.on(_contacts(robot), settings.active_contacts)
        self.apply(settings)
        if before is not None and self.robot.observer is not None:
            self.robot.observer.resume(before)

    def receive_sensor(self, topic: str, message: SensorMessage):
        """Store a sensor message of a topic. Raises BadMessage if it is not finite or has another frame."""
        for sensor in self.topics[topic].sensors:
            if self.sensors is not None:
                self.sensors.update(sensor, message)
            self.gravity.update(sensor, message)
            self.contact_imu.update(sensor, message)
            self.wrench_sensor.update(sensor, message, self.joints.position)

    def forget(self):
        """Clear the measured state and the reference, as after a clock jump."""
        self.state.reset()
        self.reference = self.base_acceleration = None
        self.wrench_sensor.forget()
        self._reset_observer()

    def snapshot(self) -> Snapshot:
        """The measured state, the payloads and the assembly of the loops."""
        state = self.state
        branch = self.coordinates.branch
        return Snapshot(self.joints, state.base, self.gravity.tilt, self.payloads, branch, state.filtered)

    def follow(self, snapshot: Snapshot):
        """Copy the state of another ServedState of the same robot."""
        state = self.state
        state.joints, state.base, state.filtered = snapshot.joints, snapshot.base, snapshot.filtered
        self.gravity.tilt = snapshot.tilt
        self.coordinates.branch = snapshot.branch
        if snapshot.payloads != self.payloads:
            self._load(snapshot.payloads, self.settings)

    def set_payload(self, link, mass, com, inertia_com):
        """Attach a payload, which replaces the last one on this link; mass 0 removes it. Raises KeyError for
        an unknown link and ValueError for an impossible inertia; then nothing changes."""
        self.model.frame(link)
        others = {name: payload for name, payload in self.payloads.items() if name != link}
        self._load(others if mass == 0 else {**others, link: (mass, com, inertia_com)}, self.settings)

    def _load(self, payloads, settings):
        """Attach payloads and the tool of the settings to the robot."""
        wrench = used_sensors(self.unloaded, settings).wrench
        model: Any = with_sensed_tool(self.unloaded.model, settings, wrench)
        for link, payload in payloads.items():
            model = with_payload(model, link, *payload)
        bare = model is self.unloaded.model
        self.robot = self.unloaded if bare else self.unloaded.with_inertias(model)
        self.model, self.solver = self.robot.model, self.robot.solver
        self.payloads, self._tool = payloads, _tool(settings)
        touching = self.robot.touching
        self.contacts = None if touching is None else ContactMap(self.model, touching)
        self._reset_observer()

    def _reset_observer(self):
        for observer in (self.robot.observer, self.robot.contact_observer):
            if observer is not None:
                observer.reset()

    def _sensors_of(self, robot, before=None) -> Estimation | None:
        """The readings of a sensor problem; None for other problems."""
        if not isinstance(robot.solver, Estimator):
            return None
        return Estimation(robot.solver, self.joints.names, robot.unobservable_without).resumed(before)


def _contacts(robot):
    return () if robot.touching is None else robot.touching.contacts


def _tool(settings):
    """Settings that `with_sensed_tool` reads."""
    return (
        settings.wrench_sensor_name,
        settings.wrench_sensor_tool_mass,
        settings.wrench_sensor_tool_com,
    )
