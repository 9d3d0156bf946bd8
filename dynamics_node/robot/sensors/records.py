"""The sensors a robot may have, one record each: where it sits, what it reads, how well.

What a record says nothing about is unknown; equations of its readings: graph/sensor_factors.py. Frames: xyz
(m) and rpy (rad, fixed axes, as URDF has them) place a sensor in the frame of its link. Wrenches are moment
first; names of their rows are mx my mz fx fy fz.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dynamics_node.robot.errors import SensorError
from dynamics_node.robot.sensors.noise import covariance_of, deviations, numbers

WRENCH = ("mx", "my", "mz", "fx", "fy", "fz")
MEASURED, ZERO, UNKNOWN = ROLES = ("measured", "zero", "unknown")
SIGNS = {"child_to_parent": -1.0, "parent_to_child": 1.0}
Numbers = float | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """What all sensors have. Immutable and hashable: sequences become tuples.

    std: standard deviation of all its rows or of each, in the unit of the reading; 0.0: exact. covariance
    (rows, rows) in its place. value: its rows are not read but known beforehand, as well as std says: a
    prior. name: of its readings; by default the joint or link and what is read there. topic, frame: where the
    node subscribes to it, and the frame_id of the messages. Raises SensorError for numbers that are none, for
    a covariance that is not symmetric positive definite, for neither or both of std and covariance.
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
                f"sensor {self.name!r}: give how well it knows, either as std (0.0: exact) or as covariance"
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
        """The joint or link where it is."""
        return self.joint if hasattr(self, "joint") else self.link  # type: ignore[attr-defined]


@dataclass(frozen=True)
class JointTorque(Sensor):
    """The torque tau of a joint that owns coordinates, N m or N: rotors (armature) included, friction not."""

    kind = "torque"
    joint: str


@dataclass(frozen=True)
class JointAcceleration(Sensor):
    """The acceleration of a joint, rad/s^2 or m/s^2: of a floating base as qdd has it."""

    kind = "acceleration"
    joint: str


@dataclass(frozen=True, kw_only=True)
class Posed(Sensor):
    """A sensor with a pose on a link."""

    xyz: Sequence[float] = (0.0, 0.0, 0.0)
    rpy: Sequence[float] = (0.0, 0.0, 0.0)

    def __post_init__(self):
        super().__post_init__()
        for part in ("xyz", "rpy"):
            self._keep(**{part: numbers(self.name, part, getattr(self, part), 3)})


@dataclass(frozen=True)
class ForceTorque(Posed):
    """The wrench (6) that a joint transmits, a fixed one too, at the sensor in its axes; xyz, rpy: its pose
    in the child link.

    measures: 'child_to_parent': the wrench of the child ON the parent, so that a push on the child reads as
    it is (Gazebo's default); 'parent_to_child': the reverse, as the quantity `sensor_wrench`.
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
        """By which the wrench of the parent ON the child is multiplied."""
        return SIGNS[self.measures]


@dataclass(frozen=True)
class Accelerometer(Posed):
    """Proper acceleration (3) of a point of a link in the sensor's axes, m/s^2: at rest it reads 9.81
    upward."""

    kind = "accelerometer"
    link: str


@dataclass(frozen=True)
class AngularAcceleration(Posed):
    """The angular acceleration (3) of a link in the sensor's axes, rad/s^2."""

    kind = "angular_acceleration"
    link: str


@dataclass(frozen=True)
class Gyro(Posed):
    """The angular velocity (3) of a link in the sensor's axes, rad/s. It follows from q and qd: such rows
    determine nothing, but contradict others if they are wrong."""

    kind = "gyro"
    link: str


@dataclass(frozen=True)
class Imu(Posed):
    """A gyro (rows 0 to 2) and an accelerometer (rows 3 to 5) at one place."""

    kind = "imu"
    link: str


@dataclass(frozen=True)
class ExternalWrench(Posed):
    """The wrench by the environment ON a link, at the sensor in its axes. Links without this record are not
    touched.

    rows: of each of mx my mz fx fy fz, or of all, whether it is 'measured' (read, or known by `value`),
    'zero' or 'unknown'; std, covariance and value are of the measured rows. A link has one wrench, however
    many of these records speak about it.
    """

    kind = "wrench"
    link: str
    rows: str | Sequence[str] = MEASURED

    def __post_init__(self):
        rows = (self.rows,) * 6 if isinstance(self.rows, str) else tuple(self.rows)
        self._keep(rows=rows)
        if self.std is None and self.covariance is None and MEASURED not in rows:
            self._keep(std=0.0)
        super().__post_init__()
        if len(rows) != 6 or not set(rows) <= set(ROLES):
            raise SensorError(
                f"sensor {self.name!r}: rows must be 6 of {', '.join(map(repr, ROLES))} for "
                f"{' '.join(WRENCH)}, not {self.rows!r}"
            )


SENSORS = {
    sensor.kind: sensor
    for sensor in (
        JointTorque, JointAcceleration, ForceTorque, Accelerometer, AngularAcceleration, Gyro, Imu,
        ExternalWrench,
    )
}  # fmt: skip
