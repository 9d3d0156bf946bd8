"""Any sensors in place of torques or accelerations that are known (paper 4, Nori 2024, section III)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dynamics_node.model.beyond import beyond
from dynamics_node.problem.shapes import Coordinates, Shapes, state_shapes
from dynamics_node.sensors import (
    MEASURED,
    WRENCH,
    ZERO,
    Accelerometer,
    AngularAcceleration,
    ExternalWrench,
    ForceTorque,
    Gyro,
    Imu,
    JointAcceleration,
    JointTorque,
    Sensor,
    SensorError,
)

_ANGULAR, _LINEAR = ("wx", "wy", "wz"), ("ax", "ay", "az")
_LABELS: dict[type[Sensor], tuple[str, ...]] = {
    ForceTorque: WRENCH,
    Accelerometer: _LINEAR,
    AngularAcceleration: ("alphax", "alphay", "alphaz"),
    Gyro: _ANGULAR,
    Imu: (*_ANGULAR, *_LINEAR),
}


RESULTS = ("qdd", "tau", "f_ext")


class Contact(NamedTuple):
    """Where the environment touches: the wrench on a link, in the axes of a frame of the link at its origin.
    rows: which of its 6 components may be other than zero."""

    link: str
    xyz: tuple[float, ...]
    rpy: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """sensors, the names of the rows of each, and of which results the covariance is asked. Made by
    `measured`.

    readings: the names of the numbers that are read at a state, in order: those of all sensors without a
    `value`, as `imu_left.ax`.
    """

    sensors: tuple[Sensor, ...]
    labels: tuple[tuple[str, ...], ...]
    covariance: tuple[str, ...] = ()
    kind: ClassVar[str] = "measured"

    @cached_property
    def readings(self) -> tuple[str, ...]:
        pairs = zip(self.sensors, self.labels, strict=True)
        return tuple(label for sensor, labels in pairs for label in labels if sensor.value is None)

    @cached_property
    def places(self) -> tuple[slice | None, ...]:
        """Where in the readings those of every sensor lie; None of what is known beforehand."""
        found: list[slice | None] = []
        start = 0
        for sensor, labels in zip(self.sensors, self.labels, strict=True):
            read = sensor.value is None
            found.append(slice(start, start + len(labels)) if read else None)
            start += len(labels) if read else 0
        return tuple(found)

    @cached_property
    def contacts(self) -> tuple[Contact, ...]:
        """One of every link with an external wrench, in the frame of its first record, without the rows that
        this one says are zero."""
        first: dict[str, Contact] = {}
        for sensor in self.sensors:
            if isinstance(sensor, ExternalWrench) and sensor.link not in first:
                rows = tuple(row for row, role in enumerate(sensor.rows) if role != ZERO)
                first[sensor.link] = Contact(sensor.link, tuple(sensor.xyz), tuple(sensor.rpy), rows)
        return tuple(first.values())

    def sensor(self, name: str) -> Sensor:
        """The sensor of a name. Raises KeyError."""
        for sensor in self.sensors:
            if sensor.name == name:
                return sensor
        raise KeyError(f"no sensor {name!r}; there are {', '.join(s.name for s in self.sensors)}")

    def gathered(self, readings: Mapping[str, Any]) -> np.ndarray:
        """readings (..., m) from {name of a sensor: (..., rows), or (...) of one row}. Raises SensorError,
        naming the sensor: one that is missing or unknown, numbers of rows that differ."""
        wanted = {s.name: at for s, at in zip(self.sensors, self.places, strict=True) if at is not None}
        wanted = {name: at for name, at in wanted.items() if at.stop > at.start}
        if missing := [name for name in wanted if name not in readings]:
            raise SensorError(f"sensor {missing[0]!r} has no reading; with readings: {', '.join(readings)}")
        if unknown := [name for name in readings if name not in wanted]:
            raise SensorError(f"no sensor {unknown[0]!r} is read; those that are: {', '.join(wanted)}")
        parts = [_reading(name, readings[name], at.stop - at.start) for name, at in wanted.items()]
        batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        spread = [np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts]
        return np.concatenate([np.zeros((*batch, 0)), *spread], axis=-1)

    def reads(self, robot: Coordinates, wrenches=False) -> Shapes:
        """{name: shape} of what is known at a state, in the order of arguments."""
        shapes = state_shapes(robot, ("q", "qd", "gravity"))
        return {"q": shapes["q"], "qd": shapes["qd"], "readings": (len(self.readings),)} | shapes

    def returns(self, robot: Coordinates) -> Shapes:
        """{name: shape} of the result: qdd, tau and f_ext, complete; residuals of the readings (reading minus
        estimate), chi_square over all that is uncertain; covariances as qdd_covariance and tau_covariance
        (nv, nv), f_ext_covariance (nbodies, 6, 6) of every body's wrench."""
        shapes = state_shapes(robot, RESULTS)
        squares: Shapes = {"qdd": (robot.nv,) * 2, "tau": (robot.nv,) * 2, "f_ext": (robot.nbodies, 6, 6)}
        more: Shapes = {"residuals": (len(self.readings),), "chi_square": ()}
        return shapes | more | {f"{name}_covariance": squares[name] for name in self.covariance}


def measured(robot: Coordinates, sensors: Iterable[Sensor], covariance: Iterable[str] = ()) -> Measured:
    """The exact dynamics, and these sensors: what they read is as good as their std or covariance says.
    covariance: of which of 'qdd', 'tau' and 'f_ext' it is asked for.

    Nothing else is known, but that the environment touches no link without an ExternalWrench, and that
    nothing drives floating joints and the dependent joints of loops. Raises SensorError, naming the sensor:
    of an unknown joint or link, one where nothing can be read, numbers of rows that differ, a name given
    twice.
    """
    sensors = tuple(sensors)
    _refuse_parts(robot)
    labels = tuple(_labels(robot, sensor) for sensor in sensors)
    _refuse_twice(sensors, labels)
    for sensor, rows in zip(sensors, labels, strict=True):
        _check_rows(sensor, len(rows))
        if isinstance(sensor, Gyro) and 0.0 in np.ravel([sensor.std]):
            raise SensorError(
                f"sensor {sensor.name!r}: angular velocities follow from q and qd, so a gyro cannot be "
                "exact; give its std in rad/s"
            )
        if isinstance(sensor, Imu) and 0.0 in np.ravel([sensor.std])[:3]:
            raise SensorError(
                f"sensor {sensor.name!r}: angular velocities follow from q and qd, so the gyro of an imu "
                "cannot be exact; give its std in rad/s, or an Accelerometer alone"
            )
    covariance = set(covariance)
    names = tuple(name for name in RESULTS if name in covariance)
    if len(names) != len(covariance):
        raise ValueError(
            f"covariances are there of {', '.join(RESULTS)}, not of {', '.join(sorted(covariance))}"
        )
    return Measured(sensors, labels, names)


def deviations(sensor: Sensor, count: int) -> np.ndarray:
    """(count,) standard deviations of the rows of a sensor; of a covariance the roots of its diagonal."""
    if sensor.covariance is not None:
        return np.sqrt(np.diag(np.array(sensor.covariance)))
    return np.broadcast_to(np.array(sensor.std, dtype=float), (count,))


def _reading(name, value, rows):
    """value as array (..., rows)."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise SensorError(f"sensor {name!r}: its reading is not an array of numbers") from None
    if rows == 1 and array.shape[-1:] != (1,):
        array = array[..., None]
    if array.shape[-1:] != (rows,):
        raise SensorError(f"sensor {name!r}: its reading has {rows} rows, but the array is {array.shape}")
    return array


# --- checks -------------------------------------------------------------------------------------------------


def _labels(robot, sensor) -> tuple[str, ...]:
    """Names of its rows; refuses a joint or link at which it cannot be."""
    if not isinstance(sensor, Sensor):
        raise SensorError(f"{sensor!r} is no sensor")
    if isinstance(sensor, (JointTorque, JointAcceleration)):
        joint = _driven(robot, sensor) if isinstance(sensor, JointTorque) else _joint(robot, sensor)
        rows: tuple[str, ...] = joint.type.v_names
    elif isinstance(sensor, ExternalWrench):
        _require_moving(robot, sensor)
        rows = tuple(name for name, role in zip(WRENCH, sensor.rows, strict=True) if role == MEASURED)
    else:
        if isinstance(sensor, ForceTorque):
            _require_parted(robot, sensor)
        else:
            _require_moving(robot, sensor)
        rows = _LABELS[type(sensor)]
    if isinstance(sensor, (JointTorque, JointAcceleration)) and not rows:
        return (sensor.name,)
    return tuple(f"{sensor.name}.{row}" for row in rows)


def _joint(robot, sensor):
    joints = {body.joint.name: body.joint for body in robot.bodies}
    if sensor.joint not in joints:
        raise SensorError(
            f"sensor {sensor.name!r}: joint {sensor.joint!r} is unknown or does not move; known: "
            f"{', '.join(joints)}"
        )
    return joints[sensor.joint]


def _require_parted(robot, sensor):
    """Refuse an unknown joint, and one of which it is not known on which side of it a loop ends."""
    try:
        own = beyond(robot, sensor.joint)
    except KeyError as error:
        raise SensorError(f"sensor {sensor.name!r}: {error.args[0]}") from None
    ends = [
        loop.name
        for loop in getattr(robot, "constraints", ())
        if own.body in (getattr(loop, "predecessor", None), getattr(loop, "successor", None))
    ]
    if robot.frames[own.link].fixed_joint and ends:
        raise SensorError(
            f"sensor {sensor.name!r}: loop {ends[0]!r} ends at a link that is fixed to both sides of joint "
            f"{sensor.joint!r}, and on which of them is not known: let the joint move, or leave it out"
        )


def _driven(robot, sensor):
    """The joint of a torque sensor."""
    joint = _joint(robot, sensor)
    own = {own.name: own for own in robot.independent_joints}
    if joint.mimic is not None:
        raise SensorError(
            f"sensor {sensor.name!r}: joint {joint.name!r} mimics {joint.mimic!r}, whose torque is that of "
            f"both: give it there"
        )
    if joint.type.is_free:
        raise SensorError(f"sensor {sensor.name!r}: nothing drives floating joint {joint.name!r}")
    if joint.name not in own:
        raise SensorError(
            f"sensor {sensor.name!r}: joint {joint.name!r} follows from a loop, and its torque is counted at "
            f"the independent joints: {', '.join(own)}"
        )
    return joint


def _require_moving(robot, sensor):
    try:
        frame = robot.frame(sensor.link)
    except KeyError as error:
        raise SensorError(f"sensor {sensor.name!r}: {error.args[0]}") from None
    if frame.body < 0:
        raise SensorError(
            f"sensor {sensor.name!r}: link {sensor.link!r} is fixed to the root, which does not move, so "
            "nothing follows from what is read there"
        )


def _refuse_parts(robot):
    """Torques are zero of a whole joint or of none."""
    whole = {body.joint.name: body.joint.type for body in robot.bodies}
    for joint in robot.independent_joints:
        if joint.v.stop - joint.v.start != whole[joint.name].nv and not whole[joint.name].is_free:
            raise SensorError(
                f"of {joint.kind} joint {joint.name!r} only some coordinates follow from a loop: measured "
                "problems take joints as a whole"
            )


def _refuse_twice(sensors, labels):
    again = [name for name, count in Counter(sensor.name for sensor in sensors).items() if count > 1]
    again += [label for label, count in Counter(chain(*labels)).items() if count > 1]
    if again:
        raise SensorError(
            f"sensor {again[0]!r} is there twice; a second sensor of the same kind at the same place needs a "
            "name of its own"
        )


def _check_rows(sensor, count):
    for field in ("std", "value"):
        given = getattr(sensor, field)
        if isinstance(given, tuple) and len(given) != count:
            raise SensorError(
                f"sensor {sensor.name!r}: it has {count} rows, but {field} is {len(given)} numbers"
            )
    if sensor.covariance is not None and len(sensor.covariance) != count:
        size = len(sensor.covariance)
        raise SensorError(
            f"sensor {sensor.name!r}: it has {count} rows, but its covariance is {size} x {size}"
        )
