"""External wrenches on links, gravity from an IMU or the settings, and the IMU of the contact estimate."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import external_wrenches
from dynamics_node.graph.sensor_factors import sensor_transform
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.joint_memory import LARGEST, possible
from dynamics_node.node.state.sensor_readings import SensorMessage, check_frame, numbers_of, topic_name
from dynamics_node.robot.sensors import Imu
from dynamics_node.symbolic import quaternion_rotation, transform_rotation

UNIT_TOLERANCE = 1e-3  # IMUs send single precision
WEAKEST = 1.0  # m/s^2: smaller accelerations do not determine the vertical


class ExternalWrenches:
    """The latest wrench on every link."""

    def __init__(self, model):
        self._model = model
        self._wrenches: dict[str, tuple[np.ndarray, int]] = {}

    def update(self, link, wrench, now):
        """wrench (6,) exerted ON the link, moment first, in its axes at its origin. Raises BadMessage."""
        if link not in self._model.frames:
            raise BadMessage(f"frame_id {link!r} is not a link of the robot")
        wrench = np.array(wrench, dtype=float)
        if not possible(wrench).all():
            raise BadMessage(f"wrench on {link!r} is not finite, or above {LARGEST:g}")
        self._wrenches[link] = (wrench, now)

    def on(self, model):
        """The wrenches for another Robot, without those on links that it lacks."""
        other = ExternalWrenches(model)
        other._wrenches = {link: w for link, w in self._wrenches.items() if link in model.frames}
        return other

    def f_ext(self, now, timeout):
        """(nbodies, 6) of the wrenches received within `timeout` ns, None if there are none."""
        if not self._wrenches:
            return None
        fresh = {link: w for link, (w, received) in self._wrenches.items() if now - received <= timeout}
        return external_wrenches(self._model, fresh) if fresh else None

    def links(self, now, timeout):
        """Names of the links with a valid wrench."""
        return [link for link, (_, received) in self._wrenches.items() if now - received <= timeout]


class Tilt(NamedTuple):
    """Unit vector (3,) of gravity in root axes; ns of reception."""

    direction: np.ndarray
    received: int


class Gravity:
    """Gravity in root axes: of the parameter, or in the direction of an IMU on the root link. sensor: the
    IMU; tilt: the latest."""

    def __init__(self):
        self.sensor: Imu | None = None
        self.tilt: Tilt | None = None

    def apply(self, settings, model, sensor: Imu | None):
        """Apply settings and their sensor."""
        if sensor != self.sensor:
            self.tilt = None
        self.sensor, self._name, self._given = sensor, settings.gravity_sensor, np.array(settings.gravity)
        self._timeout = int(settings.sensor_timeout * 1e9)
        if sensor is not None:
            self._rotation = transform_rotation(sensor_transform(model, sensor.link, sensor.xyz, sensor.rpy))

    def update(self, sensor, message: SensorMessage):
        """Store a message of this sensor; others are ignored. Raises BadMessage."""
        if sensor != self.sensor:
            return
        check_frame(sensor, message)
        up = _up(message.orientation, np.array(message.numbers[3:], dtype=float))
        self.tilt = Tilt(-self._rotation.T @ up, message.received)

    def __call__(self, steady_now):
        """(3,), m/s^2. Raises NoOutput if the messages of the IMU are absent or stale."""
        if self.sensor is None:
            return self._given
        if steady_now - self._received_tilt().received > self._timeout:
            raise NoOutput(f"gravity_sensor {self._name} older than {self._timeout * 1e-9:g} s", True)
        return self.last()

    def last(self):
        """The latest value, of any age. Raises NoOutput before the first message of the IMU."""
        if self.sensor is None:
            return self._given
        return np.linalg.norm(self._given) * self._received_tilt().direction

    def _received_tilt(self) -> Tilt:
        if self.tilt is None:
            raise NoOutput(f"no message yet of gravity_sensor {self._name}")
        return self.tilt


class ContactImu:
    """The latest reading of contact_estimation.imu. sensor: None without one."""

    def __init__(self):
        self.sensor: Imu | None = None
        self._latest: tuple[np.ndarray, int] | None = None

    def apply(self, settings, sensor: Imu | None):
        """Apply settings and their sensor."""
        if sensor != self.sensor:
            self._latest = None
        self.sensor, self._name = sensor, f"contact_estimation.imu {settings.contact_estimation_imu}"
        self._timeout = int(settings.sensor_timeout * 1e9)

    def update(self, sensor, message: SensorMessage):
        """Store a message of this sensor; others are ignored. Raises BadMessage."""
        if sensor == self.sensor:
            self._latest = numbers_of(sensor, message), message.received

    def __call__(self, steady_now):
        """(6,), angular velocity and acceleration. Raises NoOutput if the messages are absent or stale."""
        if self._latest is None:
            hint = f"publish it on {topic_name(self.sensor)}" if self.sensor else ""
            raise NoOutput(f"no message yet of {self._name}", remedy=hint)
        reading, received = self._latest
        if steady_now - received > self._timeout:
            raise NoOutput(f"{self._name} older than {self._timeout * 1e-9:g} s", True)
        return reading


def _up(orientation, acceleration):
    """Unit vector upward in the axes of the IMU."""
    if orientation is None:
        length = np.linalg.norm(acceleration)
        if not (np.isfinite(length) and length > WEAKEST):
            raise BadMessage(
                f"no orientation, and the acceleration of {length:.3g} m/s^2 is too small for the vertical"
            )
        return acceleration / length
    quaternion = np.array(orientation, dtype=float)
    norm = np.linalg.norm(quaternion)
    if not abs(norm - 1) <= UNIT_TOLERANCE:
        raise BadMessage(f"orientation has norm {norm:.6g}, not 1")
    return quaternion_rotation(quaternion)[2]
