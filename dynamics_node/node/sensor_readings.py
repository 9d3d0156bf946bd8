"""What the sensors of a measured problem read at the moment. Without ROS.

Joint torques are the efforts of joint_states; every other sensor has a topic of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics_node.node.joint_memory import BadMessage
from dynamics_node.node.silence import Silence, listed
from dynamics_node.problem import Measured
from dynamics_node.sensors import (
    WRENCH,
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    Gyro,
    Imu,
    JointTorque,
    MEASURED,
    Sensor,
)


class Heard(NamedTuple):
    """What a topic carries of a sensor. message: 'Imu' or 'WrenchStamped'; rows: which of its numbers are the
    sensor's, of (angular velocity, acceleration) or (moment, force)."""

    message: str
    rows: tuple[int, ...]


_ALL = tuple(range(6))
_HEARD: dict[type[Sensor], Callable[[Sensor], Heard]] = {
    Imu: lambda sensor: Heard("Imu", _ALL),
    Gyro: lambda sensor: Heard("Imu", _ALL[:3]),
    Accelerometer: lambda sensor: Heard("Imu", _ALL[3:]),
    ForceTorque: lambda sensor: Heard("WrenchStamped", _ALL),
    ExternalWrench: lambda sensor: Heard(
        "WrenchStamped", tuple(k for k in _ALL if sensor.rows[k] == MEASURED)
    ),
}


def heard(sensor: Sensor) -> Heard | None:
    """What a topic carries of it; None of joint torques, and of what nobody reads. Raises ValueError for a
    sensor that no message of ROS tells of."""
    if isinstance(sensor, JointTorque) or sensor.value is not None:
        return None
    if type(sensor) not in _HEARD:
        raise ValueError(
            f"sensor {sensor.name!r}: no message that the node hears tells {sensor.kind.replace('_', ' ')}; "
            "give it a value with its std, or leave it out"
        )
    found = _HEARD[type(sensor)](sensor)
    return found if found.rows else None


class SensorReadings:
    """The latest readings of the sensors of a problem. lacking: {sensor: what is open without it, in words}."""

    def __init__(self, problem: Measured, joint_names, lacking):
        self._problem, self._lacking = problem, lacking
        places = dict(zip((s.name for s in problem.sensors), problem.places, strict=True))
        self._efforts: dict[str, tuple[int, slice]] = {}
        self._topics: dict[str, slice] = {}
        for sensor in problem.sensors:
            place = places[sensor.name]
            if place is None or place.start == place.stop:
                continue
            if isinstance(sensor, JointTorque):
                self._efforts[sensor.name] = joint_names.index(sensor.joint), place
            else:
                self._topics[sensor.name] = place
        self._values = np.full(len(problem.readings), np.nan)
        self._received: dict[str, int] = {}

    def update(self, sensor: Sensor, numbers, frame, received):
        """Take in the numbers (6,) of a message. Raises BadMessage: not finite, or of another frame."""
        _check_frame(sensor, frame)
        values = np.array(numbers, dtype=float)[list(_HEARD[type(sensor)](sensor).rows)]
        if not np.isfinite(values).all():
            raise BadMessage(f"sensor {sensor.name!r}: a reading is not finite")
        self._values[self._topics[sensor.name]] = values
        self._received[sensor.name] = received

    def vector(self, efforts, steady_now, timeout):
        """All readings (m,): efforts (joints,) of joint_states and what topics said within `timeout` ns.
        Raises Silence naming those that are absent or stale, and what is open without them."""
        never = [name for name in self._topics if name not in self._received]
        if never:
            raise Silence(f"no message yet of sensor {listed(never)}{self._open(never)}")
        stale = [name for name in self._topics if steady_now - self._received[name] > timeout]
        if stale:
            raise Silence(f"sensor {listed(stale)} older than {timeout * 1e-9:g} s{self._open(stale)}", True)
        found = self._values.copy()
        for number, place in self._efforts.values():
            found[place] = efforts[number]
        if not np.isfinite(found).all():
            absent = [name for name, (number, _) in self._efforts.items() if not np.isfinite(efforts[number])]
            raise Silence(f"no effort in joint_states for sensor {listed(absent)}{self._open(absent)}")
        return found

    def ages(self, steady_now):
        """{sensor: s since its last message, None before the first} of those with a topic."""
        return {
            name: (steady_now - self._received[name]) * 1e-9 if name in self._received else None
            for name in self._topics
        }

    def _open(self, names):
        words = list(dict.fromkeys(word for name in names for word in self._lacking.get(name, ())))
        return f"; without it nothing tells {listed(words)}" if words else ""


def _check_frame(sensor, frame):
    if sensor.frame and frame != sensor.frame:
        raise BadMessage(
            f"sensor {sensor.name!r}: its frame is {sensor.frame!r}, but the message has {frame!r}"
        )
