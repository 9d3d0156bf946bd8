"""A floating base by an IMU alone, in the frame that moves with the IMU and does not turn.

Forces are the same in that frame. Free fall is minus the specific force there, which is what an accelerometer
reads. The origin of the base has the velocity r x w, with r from this origin to the IMU. So neither the
velocity nor the angular acceleration of the base is needed; its position and heading change no force.
"""

import math
from collections.abc import Iterable

import numpy as np

from dynamics_node.errors import ContactError, InputError, SensorError
from dynamics_node.functions.checks import finite, numbers
from dynamics_node.graph.sensor_factors import sensor_transform
from dynamics_node.robot import Robot, sensor_problem
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.sensors import Imu
from dynamics_node.symbolic import skew, transform_origin, transform_rotation

LEVELING = 1.0  # s: time constant of the mean specific force, which is the vertical
FIRST = 0.1  # m/s^2: size of this mean before the first reading, with the base upright
WEAKEST = 2.0  # m/s^2: a smaller mean is no reading with gravity, after LONGEST_FALL s
LONGEST_FALL = 3.0
VERTICAL, UPSIDE_DOWN = 1e-9, 1e-12  # largest differences of a cosine from 1 and -1


class BaseImu:
    """The state of the base from readings (6,): angular velocity and specific force at the IMU, in its axes.

    velocity_variance (6,), acceleration_variance (3,): of the twist and of free fall, in axes of the base.
    Raises SensorError for an IMU that is not on the floating base, and for a robot of which another part is
    on the world; ContactError for a contact whose normal depends on the heading.
    """

    def __init__(self, robot: Robot, imu: Imu, contacts: Iterable[Contact]):
        _require_on_base(robot, imu)
        X = np.asarray(sensor_transform(robot, imu.link, imu.xyz, imu.rpy), dtype=float)
        self.imu, self._sizes, self._axes = imu, ((robot.nq,), (robot.nv,)), transform_rotation(X).T
        self._twist = np.concatenate([self._axes, skew(transform_origin(X)) @ self._axes])
        given = imu.covariance
        squares = np.array(imu.std) ** 2 if given is None else np.diag(np.array(given))
        variances = np.broadcast_to(squares, 6)
        self.velocity_variance = self._twist**2 @ variances[:3]
        self.acceleration_variance = self._axes**2 @ variances[3:]
        up = -robot.gravity if robot.gravity.any() else np.array([0.0, 0.0, 1.0])
        _require_vertical(contacts, up / np.linalg.norm(up))
        self._root = transform_rotation(robot.bodies[0].X_tree).astype(float)
        self._up = self._root @ (up / np.linalg.norm(up))
        self._across = skew(self._up)  # u @ skew(up) = u x up
        self.reset()

    def reset(self):
        """Forget the vertical."""
        self._mean, self._begun, self._time = np.zeros(3), -np.inf, -np.inf

    def state(self, time, q, qd, reading):
        """q (nq,) and qd (nv,) with the base in the moving frame, and free fall (3,) in root axes. Raises
        InputError."""
        reading, time = finite("imu", reading, (6,)), float(finite("time", time, ()))
        twist, force = self._twist @ reading[:3], self._axes @ reading[3:]
        self._level(time, twist[:3], force)
        if time - self._begun > LONGEST_FALL and self._mean @ self._mean < WEAKEST**2:
            raise InputError(
                f"the mean acceleration of imu {self.imu.name!r} is nearly zero: it must include gravity, "
                "9.81 m/s^2 upward at rest"
            )
        q, qd, orientation = numbers("q", q).copy(), numbers("qd", qd).copy(), self._orientation()
        if (q.shape, qd.shape) == self._sizes:  # else the observer names the shape
            q[:3], q[3:7], qd[:6] = 0.0, orientation, twist
        K = skew(orientation[:3])
        turned = force + 2.0 * (K @ (orientation[3] * force + K @ force))
        return q, qd, -self._root.T @ turned

    def resume(self, before: "BaseImu"):
        """Continue with the vertical of another one."""
        self._mean, self._begun, self._time = before._mean, before._begun, before._time

    def _level(self, time, w, force):
        """Update the mean specific force, of any length, in axes of the base."""
        dt = time - self._time
        if 0.0 < dt < LEVELING:
            share = dt / LEVELING
            self._mean = (1.0 - share) * (self._mean - dt * (skew(w) @ self._mean)) + share * force
        elif dt:
            self._mean, self._begun = FIRST * self._up, time
        self._time = time

    def _orientation(self):
        """Quaternion (4,) of the base that turns the mean specific force upward, without heading."""
        u = self._mean / (math.sqrt(self._mean @ self._mean) or 1.0)
        quaternion = np.empty(4)
        quaternion[:3], quaternion[3] = u @ self._across, 1.0 + u @ self._up
        if quaternion[3] < UPSIDE_DOWN:
            return np.append(np.linalg.svd(self._up[None])[2][1], 0.0)
        return quaternion / math.sqrt(2.0 * quaternion[3])


def _require_on_base(robot, imu):
    if not isinstance(imu, Imu):
        raise TypeError(f"imu must be an Imu, not {type(imu).__name__}")
    sensor_problem(robot, [imu])
    label = f"sensor {imu.name!r}"
    if not robot.floating_base or robot.frame(imu.link).body != 0:
        base = f"the floating link {robot.bodies[0].name!r}" if robot.floating_base else "a floating base"
        raise SensorError(f"{label}: its link {imu.link!r} is not fixed to {base}, which contacts need")
    if other := [body.name for body in robot.bodies[1:] if body.parent < 0]:
        raise SensorError(
            f"{label}: {other[0]!r} joins the robot to the world, in which an IMU does not measure the "
            "velocity: leave imu out, and give the pose and twist of the base"
        )


def _require_vertical(contacts, up):
    for contact in contacts:
        turns = contact.kind != "surface" and not contact.other
        if turns and abs(abs(np.dot(contact.normal, up)) - 1.0) > VERTICAL:
            raise ContactError(
                f"contact {contact.name!r}: its normal is not vertical, and an IMU does not measure the "
                "heading: leave imu out, and give the pose and twist of the base"
            )
