"""What acts on the robot from outside: wrenches on links, and gravity as an IMU sees it."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import external_wrenches
from dynamics_node.node.core.errors import BadMessage, NoOutput
from dynamics_node.symbolic import quaternion_rotation, transform_rotation

UNIT_TOLERANCE = 1e-3  # IMUs send single precision
WEAKEST = 1.0  # m/s^2: below, an accelerometer says nothing about the vertical


class ExternalWrenches:
    """The latest wrench on every link that somebody reports one for."""

    def __init__(self, model):
        self._model = model
        self._wrenches: dict[str, tuple[np.ndarray, int]] = {}

    def update(self, link, wrench, now):
        """wrench (6,) exerted ON the link, moment first, in its axes at its origin. Raises BadMessage."""
        if link not in self._model.frames:
            raise BadMessage(f"frame_id {link!r} is no link of the robot")
        wrench = np.array(wrench, dtype=float)
        if not np.isfinite(wrench).all():
            raise BadMessage(f"wrench on {link!r} is not finite")
        self._wrenches[link] = (wrench, now)

    def on(self, model):
        """The wrenches for another Robot; those of links it does not have are dropped."""
        other = ExternalWrenches(model)
        other._wrenches = {link: w for link, w in self._wrenches.items() if link in model.frames}
        return other

    def f_ext(self, now, timeout):
        """(nbodies, 6) of the wrenches heard of within `timeout` ns, None when there are none."""
        fresh = {link: w for link, (w, received) in self._wrenches.items() if now - received <= timeout}
        return external_wrenches(self._model, fresh) if fresh else None

    def links(self, now, timeout):
        """Names of the links whose wrench counts."""
        return [link for link, (_, received) in self._wrenches.items() if now - received <= timeout]


class Tilt(NamedTuple):
    """Direction of free fall (3,) in root axes, of length 1; ns of reception."""

    direction: np.ndarray
    received: int


class Gravity:
    """Free fall in root axes: of the parameter, or in the direction that an IMU sees. tilt: the latest."""

    def __init__(self):
        self.tilt: Tilt | None = None

    def apply(self, settings):
        """Take over Settings."""
        self._told, self._by_imu = np.array(settings.gravity), settings.gravity_source == "imu"
        self._timeout = int(settings.imu_timeout * 1e9)

    def __call__(self, steady_now):
        """(3,), m/s^2. Raises NoOutput when an IMU is to tell it but is silent."""
        gravity = self.last()
        if self._by_imu and steady_now - self._seen().received > self._timeout:
            raise NoOutput(f"imu older than {self._timeout * 1e-9:g} s", True)
        return gravity

    def last(self):
        """What was told last, however old. Raises NoOutput before the first IMU message."""
        return np.linalg.norm(self._told) * self._seen().direction if self._by_imu else self._told

    def _seen(self) -> Tilt:
        if self.tilt is None:
            raise NoOutput("no imu message yet (gravity_source: imu)")
        return self.tilt


def read_tilt(model, link, orientation, acceleration, now) -> Tilt:
    """Tilt from an IMU that is fixed to the root.

    orientation: x y z w of the IMU in a world whose z is up, or None; then acceleration (3,), what the
    accelerometer shows, points up. Raises BadMessage.
    """
    link = link or model.base_link
    frame = model.frames.get(link)
    if frame is None:
        raise BadMessage(f"frame_id {link!r} is no link of the robot")
    if frame.body >= 0:
        raise BadMessage(f"frame_id {link!r} moves against the root link {model.base_link!r}")
    up = _up(orientation, np.array(acceleration, dtype=float))
    return Tilt(-transform_rotation(frame.X).T @ up, now)


def _up(orientation, acceleration):
    """Unit vector upward in the axes of the IMU."""
    if orientation is None:
        length = np.linalg.norm(acceleration)
        if not (np.isfinite(length) and length > WEAKEST):
            raise BadMessage(f"no orientation, and an acceleration of {length:.3g} m/s^2 shows no vertical")
        return acceleration / length
    quaternion = np.array(orientation, dtype=float)
    norm = np.linalg.norm(quaternion)
    if not abs(norm - 1) <= UNIT_TOLERANCE:
        raise BadMessage(f"orientation has norm {norm:.6g}, not 1")
    return quaternion_rotation(quaternion)[2]
