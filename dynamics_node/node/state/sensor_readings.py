"""The sensors of sensors_file: their topics, messages and latest readings.

Joint torques are the efforts of joint_states; every other sensor has a topic. Without ROS.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from time import monotonic_ns
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SensorError, SolutionError
from dynamics_node.functions import Estimate, Estimator
from dynamics_node.graph import chi_square_limit, observability
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.joint_memory import LARGEST, possible
from dynamics_node.robot import SensorProblem, sensor_problem
from dynamics_node.robot.sensors import WRENCH as COMPONENTS
from dynamics_node.robot.sensors import (
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    Gyro,
    Imu,
    JointAcceleration,
    JointTorque,
    Sensor,
    load_sensors,
)
from dynamics_node.robot.subtree import subtree
from dynamics_node.text import listed

IMU, WRENCH = "Imu", "WrenchStamped"
_TOPIC = re.compile(r"(~/|/)?[A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*")
_ALL = tuple(range(6))
_MESSAGES: dict[type[Sensor], tuple[str, tuple[int, ...]]] = {
    Imu: (IMU, _ALL),
    Gyro: (IMU, _ALL[:3]),
    Accelerometer: (IMU, _ALL[3:]),
    ForceTorque: (WRENCH, _ALL),
    ExternalWrench: (WRENCH, _ALL),
}  # message type, and the sensor's rows in (angular velocity, acceleration) or (moment, force)


def _rows(sensor) -> list[int]:
    """Indices of the sensor's readings in its message."""
    if isinstance(sensor, ExternalWrench):
        return [COMPONENTS.index(row) for row in sensor.rows]
    return list(_MESSAGES[type(sensor)][1])


def read_sensors(path: str, robot) -> tuple[Sensor, ...]:
    """The sensors of a file, () without one. The default frame is the link of the sensor. Raises OSError,
    and SensorError for an unknown joint or link or a duplicate name."""
    sensors = tuple(_framed(robot, sensor) for sensor in load_sensors(path)) if path else ()
    if duplicates := [name for name, count in Counter(s.name for s in sensors).items() if count > 1]:
        raise SensorError(f"sensors_file has sensor {duplicates[0]!r} twice; names must be unique")
    return sensors


def _framed(robot, sensor):
    if isinstance(sensor, (JointTorque, JointAcceleration)):
        return sensor
    try:
        link = subtree(robot, sensor.joint).link if isinstance(sensor, ForceTorque) else sensor.link
        return replace(sensor, frame=sensor.frame or robot.frame(link).name)
    except KeyError as error:
        raise SensorError(f"sensor {sensor.name!r}: {error.args[0]}") from None


def sensor_named(sensors: Iterable[Sensor], parameter: str, name: str, kind: type[Sensor]) -> Any:
    """The sensor of this kind that a parameter names, None if that is empty. Raises ValueError."""
    if not name:
        return None
    known = {sensor.name: sensor for sensor in sensors}
    if name not in known:
        raise InputError(f"{parameter}: sensors_file has no sensor {name!r}; it has {', '.join(known)}")
    if type(known[name]) is not kind:
        raise InputError(f"{parameter}: sensor {name!r} has type {known[name].kind}, not {kind.kind}")
    return known[name]


def moving(robot, sensors: Iterable[Sensor]) -> tuple[Sensor, ...]:
    """The sensors without IMUs on links fixed to the root, which measure only gravity."""
    return tuple(s for s in sensors if not (isinstance(s, Imu) and robot.frame(s.link).body < 0))


class Topic(NamedTuple):
    """A topic, its message type (IMU or WRENCH) and its sensors."""

    name: str
    message: str
    sensors: tuple[Sensor, ...]


class UsedSensors(NamedTuple):
    """Sensors of gravity_sensor, wrench_sensor.name and, in use, contact_estimation.imu; topics of these and
    of a sensor problem."""

    gravity: Imu | None
    wrench: ForceTorque | None
    contact_imu: Imu | None
    topics: dict[str, Topic]


def used_sensors(robot, settings) -> UsedSensors:
    """The sensors of a ServedRobot in use. Raises ValueError with the parameter or the sensor."""
    gravity = sensor_named(robot.sensors, "gravity_sensor", settings.gravity_sensor, Imu)
    wrench = sensor_named(robot.sensors, "wrench_sensor.name", settings.wrench_sensor_name, ForceTorque)
    if gravity and gravity in moving(robot.model, robot.sensors):
        raise InputError(
            f"gravity_sensor: link {gravity.link!r} of {gravity.name!r} is not fixed to the root"
        )
    name = settings.contact_estimation_imu if settings.contact_source == "estimated" else ""
    contact_imu = sensor_named(robot.sensors, "contact_estimation.imu", name, Imu)
    problem = robot.solver.problem
    measured = problem.sensors if isinstance(problem, SensorProblem) else ()
    sensors = dict.fromkeys((*measured, *filter(None, (gravity, wrench, contact_imu))))
    return UsedSensors(gravity, wrench, contact_imu, topics_of(sensors))


class SensorMessage(NamedTuple):
    """numbers (6,): angular velocity and acceleration of an IMU, or moment and force, in the axes of `frame`;
    stamp: of the header; received: steady ns; orientation: x y z w of an IMU, None where it has none."""

    numbers: Any
    frame: str
    stamp: Any
    received: int
    orientation: Any = None


def topics_of(sensors: Iterable[Sensor]) -> dict[str, Topic]:
    """{name: topic} of these sensors. Raises ValueError with the sensor if no message type fits, its topic
    name is invalid, or a topic has two types."""
    topics: dict[str, Topic] = {}
    for sensor in sensors:
        if (message := _message(sensor)) is None:
            continue
        name = topic_name(sensor)
        if not _TOPIC.fullmatch(name):
            raise InputError(f"sensor {sensor.name!r}: {name!r} is not a valid topic name; set another topic")
        known = topics.get(name, Topic(name, message, ()))
        if known.message != message:
            raise InputError(
                f"sensor {sensor.name!r}: topic {name!r} has type {known.message} for "
                f"{known.sensors[0].name!r}, not {message}"
            )
        topics[name] = known._replace(sensors=(*known.sensors, sensor))
    return topics


def topic_name(sensor: Sensor) -> str:
    """The topic of a sensor that has one."""
    return sensor.topic or f"~/sensors/{sensor.name.replace(' ', '_')}"


def _message(sensor) -> str | None:
    """Message type of a sensor, None for joint torques and constant values."""
    if sensor.value is not None or isinstance(sensor, JointTorque):
        return None
    if type(sensor) not in _MESSAGES:
        raise InputError(
            f"sensor {sensor.name!r}: no message type contains {sensor.kind.replace('_', ' ')}; "
            "set its value and std, or remove it"
        )
    return _MESSAGES[type(sensor)][0] if _rows(sensor) else None


def numbers_of(sensor: Sensor, message: SensorMessage) -> np.ndarray:
    """The readings of a sensor in a message. Raises BadMessage if they are not `possible` or have another
    frame."""
    check_frame(sensor, message)
    numbers = np.array(message.numbers, dtype=float)[_rows(sensor)]
    if not possible(numbers).all():
        raise BadMessage(f"sensor {sensor.name!r}: a reading is not finite, or above {LARGEST:g}")
    return numbers


def check_frame(sensor: Sensor, message: SensorMessage):
    """Raise BadMessage if a message has another frame than the sensor; an empty frame is accepted."""
    if message.frame not in ("", sensor.frame):
        raise BadMessage(
            f"sensor {sensor.name!r}: its frame is {sensor.frame!r}, but the message has {message.frame!r}"
        )


FALSE_ALARMS = 1e-9  # per state: at 1 kHz one in twelve days, if the standard deviations are correct
JUDGE_PERIOD = 1_000_000_000  # ns between fault isolations, which take a thousand times an estimate


class Estimation:
    """The latest readings of a sensor problem, and estimates from them. joint_names: in the order of efforts;
    unobservable_without: {sensor: texts of quantities}; chi_square: of the last estimate."""

    def __init__(self, estimator: Estimator, joint_names, unobservable_without):
        self.problem = problem = estimator.problem
        self.chi_square, self._unobservable_without = 0.0, unobservable_without
        self.limit = chi_square_limit(estimator.degrees_of_freedom, FALSE_ALARMS)
        self._culprit_hint, self._judged = "", -JUDGE_PERIOD
        self._place = {s.name: place for s, place in zip(problem.sensors, problem.places, strict=True)}
        topics = topics_of(problem.sensors).values()
        self._topic_sensors = [sensor.name for topic in topics for sensor in topic.sensors]
        order = {name: k for k, name in enumerate(joint_names)}
        self._efforts = {
            sensor.name: order[sensor.joint]
            for sensor in problem.sensors
            if isinstance(sensor, JointTorque) and sensor.value is None
        }
        self._values = np.full(len(problem.readings), np.nan)
        self._received: dict[str, int] = {}

    def update(self, sensor: Sensor, message: SensorMessage):
        """Store a message of a sensor of this problem; others are ignored. Raises BadMessage."""
        if sensor.name in self._topic_sensors:
            self._values[self._place[sensor.name]] = numbers_of(sensor, message)
            self._received[sensor.name] = message.received

    def vector(self, efforts, steady_now, timeout):
        """All readings (m,): efforts (joints,) of joint_states, and messages younger than `timeout` ns.
        Raises NoOutput with absent or stale sensors and the quantities that are not observable without."""
        if absent := [name for name in self._topic_sensors if name not in self._received]:
            raise NoOutput(f"no message yet of sensor {listed(absent)}{self._unobservable(absent)}")
        if stale := [name for name in self._topic_sensors if steady_now - self._received[name] > timeout]:
            reason = f"sensor {listed(stale)} older than {timeout * 1e-9:g} s"
            raise NoOutput(f"{reason}{self._unobservable(stale)}", True)
        readings = self._values.copy()
        for name, number in self._efforts.items():
            readings[self._place[name]] = efforts[number]
        if absent := [name for name, number in self._efforts.items() if not possible(efforts[number])]:
            raise NoOutput(
                f"no effort in joint_states for sensor {listed(absent)}{self._unobservable(absent)}"
            )
        return readings

    def resumed(self, before: "Estimation | None") -> "Estimation":
        """This Estimation with the readings of the previous one, if the problem is the same."""
        if before is not None and before.problem == self.problem:
            self._values, self._received = before._values, before._received
        return self

    def ages(self, steady_now):
        """{sensor: s since its last message, None before the first}."""
        seen = self._received
        return {n: (steady_now - seen[n]) * 1e-9 if n in seen else None for n in self._topic_sensors}

    def _unobservable(self, names):
        texts = list(
            dict.fromkeys(text for name in names for text in self._unobservable_without.get(name, ()))
        )
        return f"; not observable without it: {listed(texts)}" if texts else ""

    def estimate(self, estimator: Estimator, q, qd, readings, gravity) -> Estimate:
        """The estimate. Raises NoOutput if the sensors do not determine the motion or contradict each
        other."""
        try:
            estimate = estimator(q, qd, readings, gravity=gravity)
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None
        self.chi_square = float(estimate.chi_square)
        if estimator.degrees_of_freedom and not self.chi_square <= self.limit:
            hint = self._culprits(estimator, q, qd, readings, gravity)
            raise NoOutput(
                f"sensors contradict each other (chi-square {self.chi_square:.3g}, expected "
                f"{estimator.degrees_of_freedom}){hint}"
            )
        return estimate

    def _culprits(self, *state):
        if monotonic_ns() - self._judged > JUDGE_PERIOD:
            estimator, q, qd, readings, gravity = state
            culprits = estimator.judge(q, qd, readings, gravity=gravity).culprits
            self._culprit_hint = f": most likely fault: {listed(culprits)}" if culprits else ""
            self._judged = monotonic_ns()
        return self._culprit_hint


def unobservable_without(model, sensors, contacts) -> dict[str, tuple[str, ...]]:
    """{sensor: texts of the quantities that are not observable without it}. Raises ValueError for sensors
    without a message type."""
    topics_of(sensors)
    unobservable = {}
    for sensor in sensors:
        if sensor.value is None:
            others = [other for other in sensors if other is not sensor]
            problem = sensor_problem(model, others, contacts=contacts)
            unobservable[sensor.name] = observability(model, problem).unobservable
    return unobservable
