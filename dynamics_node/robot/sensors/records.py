"""The kinds of sensors, one record each: pose, reading, and standard deviations or covariance.

Quantities without a record are unknown; graph/sensor_factors.py has the equations of readings. Frames: xyz
(m) and rpy (rad, fixed axes, as in URDF) place a sensor in the frame of its link. Wrenches have the moment
first; names of their rows are mx my mz fx fy fz.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dynamics_node.errors import SensorError
from dynamics_node.robot.validate import HUGE

DEVIATIONS = 1e-12, 1e12  # in the unit of the reading: bounds of plausible sensors
ASYMMETRY = 1e-9  # of a covariance, relative to its entries: rounding in a file


def deviations(name, std):
    """std as a float or a tuple of floats. Raises SensorError, naming the sensor."""
    values = numbers(name, "std", std, scalar=True)
    if not all(value >= 0 for value in np.ravel(values)):
        raise SensorError(f"sensor {name!r}: std is {std}, but must not be negative")
    _require_within(name, np.ravel(values))
    return values


def _require_within(name, deviations):
    """Check the range: the squares are divisors."""
    low, high = DEVIATIONS
    for value in deviations:
        if value and not low <= value <= high:
            raise SensorError(
                f"sensor {name!r}: a standard deviation of {value:g} is not between {low:g} and {high:g}, "
                "nor 0, which is exact"
            )


def covariance_of(name, covariance):
    """A covariance as a tuple of rows. Raises SensorError unless it is symmetric positive definite."""
    try:
        matrix = np.array(covariance, dtype=float)
    except (TypeError, ValueError):
        raise SensorError(f"sensor {name!r}: covariance must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise SensorError(f"sensor {name!r}: covariance must be a square matrix, not {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise SensorError(f"sensor {name!r}: covariance has entries that are not finite")
    _require_within(name, np.sqrt(np.maximum(np.diag(matrix), 0.0)))
    size = np.sqrt(np.outer(*2 * [np.abs(np.diag(matrix))]))
    if np.any(np.abs(matrix - matrix.T) > ASYMMETRY * size):
        raise SensorError(f"sensor {name!r}: its covariance is not symmetric")
    if not _definite(matrix):
        raise SensorError(f"sensor {name!r}: its covariance is not positive definite; give exact rows by std")
    return tuple(map(tuple, ((matrix + matrix.T) / 2).tolist()))


def _definite(matrix):
    """Whether it is positive definite, in units in which every variance is one."""
    variances = np.diag(matrix)
    if not np.all(variances > 0):
        return False
    scale = np.sqrt(variances)
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale)).min() > len(matrix) * np.finfo(float).eps)


def numbers(name, field, given, length=None, scalar=False):
    """A number (if `scalar`) or a sequence of them as float or tuple. Raises SensorError, naming the
    sensor."""
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        array = np.array([])
    if array.ndim == 0 and scalar and abs(array) < HUGE:
        return float(array)
    if array.ndim != 1 or not array.size or not np.all(np.abs(array) < HUGE):
        what = "a finite number or a sequence of them" if scalar else "a sequence of finite numbers"
        raise SensorError(f"sensor {name!r}: {field} must be {what}, below {HUGE:g}, not {given!r}")
    if length is not None and len(array) != length:
        raise SensorError(f"sensor {name!r}: {field} must be {length} numbers, not {len(array)}")
    return tuple(array.tolist())


# --- records ------------------------------------------------------------------------------------------------

WRENCH = ("mx", "my", "mz", "fx", "fy", "fz")
SIGNS = {"child_to_parent": -1.0, "parent_to_child": 1.0}
Numbers = float | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """The base of all sensors. Records are immutable and hashable: sequences become tuples.

    Parameters
    ----------
    std : float or sequence of float, optional
        Standard deviation of all rows or of each, in the unit of the reading; 0.0 is exact.
    covariance : array_like (rows, rows), optional
        Covariance of the rows, in place of std.
    value : float or sequence of float, optional
        Values of the rows, if they are known in advance with this uncertainty: a prior without a reading.
    name : str
        Name of its readings; by default the joint or link and the kind of reading.
    topic, frame : str
        The topic that the node subscribes to, and the frame_id of its messages.

    Raises
    ------
    SensorError
        For entries that are not numbers, a covariance that is not symmetric positive definite, and neither or
        both of std and covariance.
    """

    kind: ClassVar[str]
    std: Numbers | None = None
    covariance: Sequence[Sequence[float]] | None = None
    value: Numbers | None = None
    name: str = ""
    topic: str = ""
    frame: str = ""

    def __post_init__(self):
        if not isinstance(self.place, str) or not self.place or not isinstance(self.name, str):
            raise SensorError(
                f"{self.kind}: joint, link and name are text, not {self.place!r}, {self.name!r}"
            )
        self._keep(name=self.name or f"{self.place} {self.kind.replace('_', ' ')}")
        if (self.std is None) == (self.covariance is None):
            raise SensorError(
                f"sensor {self.name!r}: give its accuracy, either as std (0.0: exact) or as covariance"
            )
        if self.std is None:
            self._keep(covariance=covariance_of(self.name, self.covariance))
        else:
            self._keep(std=deviations(self.name, self.std))
        if self.value is not None:
            self._keep(value=numbers(self.name, "value", self.value, scalar=True))

    def _keep(self, **fields):
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def place(self) -> str:
        """Name of its joint or link."""
        return self.joint if hasattr(self, "joint") else self.link  # type: ignore[attr-defined]


@dataclass(frozen=True)
class JointTorque(Sensor):
    """A sensor of the torque tau of a joint, N m or N: with rotors (armature), without friction.

    Parameters
    ----------
    joint : str
        An independent joint.
    std, covariance, value, name, topic, frame
        As in `Sensor`.
    """

    kind = "torque"
    joint: str


@dataclass(frozen=True)
class JointAcceleration(Sensor):
    """A sensor of the acceleration of a joint, rad/s^2 or m/s^2.

    Parameters
    ----------
    joint : str
        A joint of any kind; the acceleration of a floating base is that in qdd.
    std, covariance, value, name, topic, frame
        As in `Sensor`.
    """

    kind = "acceleration"
    joint: str


@dataclass(frozen=True, kw_only=True)
class Posed(Sensor):
    """The base of sensors with a pose on a link.

    Parameters
    ----------
    xyz : sequence of float (3,)
        Position of the sensor in link axes, m.
    rpy : sequence of float (3,)
        Its orientation, angles about fixed axes as in URDF, rad.
    std, covariance, value, name, topic, frame
        As in `Sensor`.
    """

    xyz: Sequence[float] = (0.0, 0.0, 0.0)
    rpy: Sequence[float] = (0.0, 0.0, 0.0)

    def __post_init__(self):
        super().__post_init__()
        for part in ("xyz", "rpy"):
            self._keep(**{part: numbers(self.name, part, getattr(self, part), 3)})


@dataclass(frozen=True)
class ForceTorque(Posed):
    """A sensor of the wrench (6) that a joint transmits, at the sensor in its axes, moment first, N m and N.

    Parameters
    ----------
    joint : str
        A joint of any kind, often a fixed one; xyz and rpy are the sensor's pose in its child link.
    measures : {'child_to_parent', 'parent_to_child'}
        The sign. 'child_to_parent' is the wrench of the child ON the parent, so that a push on the child
        reads with its own sign (Gazebo's default). 'parent_to_child' is the reverse, as in the quantity
        `sensor_wrench`.
    xyz, rpy, std, covariance, value, name, topic, frame
        As in `Posed`.
    """

    kind = "force_torque"
    joint: str
    measures: str = field(kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if self.measures not in SIGNS:
            raise SensorError(
                f"sensor {self.name!r}: measures must be one of {', '.join(SIGNS)}, not {self.measures!r}"
            )

    @property
    def sign(self) -> float:
        """Factor of the wrench of the parent ON the child."""
        return SIGNS[self.measures]


@dataclass(frozen=True)
class LinkSensor(Posed):
    """The base of sensors that read the motion of a link in their own axes.

    Parameters
    ----------
    link : str
        A link that moves.
    xyz, rpy, std, covariance, value, name, topic, frame
        As in `Posed`.
    """

    labels: ClassVar[tuple[str, ...]]  # of its rows
    link: str


class Accelerometer(LinkSensor):
    """A sensor of the proper acceleration (3) of a point of a link, m/s^2: a `LinkSensor`.

    At rest it reads 9.81 upward.
    """

    kind = "accelerometer"
    labels = ("ax", "ay", "az")


class AngularAcceleration(LinkSensor):
    """A sensor of the angular acceleration (3) of a link, rad/s^2: a `LinkSensor`."""

    kind = "angular_acceleration"
    labels = ("alphax", "alphay", "alphaz")


class Gyro(LinkSensor):
    """A sensor of the angular velocity (3) of a link, rad/s: a `LinkSensor`.

    The velocity follows from q and qd. Such rows determine nothing, but contradict others if they are wrong.
    """

    kind = "gyro"
    labels = ("wx", "wy", "wz")


class Imu(LinkSensor):
    """A gyro (rows 0 to 2, rad/s) and an accelerometer (rows 3 to 5, m/s^2) at one place: a `LinkSensor`."""

    kind = "imu"
    labels = (*Gyro.labels, *Accelerometer.labels)


@dataclass(frozen=True)
class ExternalWrench(Posed):
    """A sensor of the wrench that all contacts of a link exert ON it, at the sensor in its axes, N m and N.

    Parameters
    ----------
    link : str
        A link with a contact of the sensor problem.
    rows : sequence of str
        The components that it measures, of mx my mz fx fy fz; by default all, moment first.
    xyz, rpy, std, covariance, value, name, topic, frame
        As in `Posed`.
    """

    kind = "wrench"
    link: str
    rows: Sequence[str] = WRENCH

    def __post_init__(self):
        self._keep(rows=(self.rows,) if isinstance(self.rows, str) else tuple(self.rows))
        super().__post_init__()
        if not self.rows or sorted(set(self.rows) & set(WRENCH)) != sorted(self.rows):
            raise SensorError(
                f"sensor {self.name!r}: rows must be different ones of {' '.join(WRENCH)}, not {self.rows!r}"
            )


SENSORS = {
    sensor.kind: sensor
    for sensor in (
        JointTorque, JointAcceleration, ForceTorque, Accelerometer, AngularAcceleration, Gyro, Imu,
        ExternalWrench,
    )
}  # fmt: skip
