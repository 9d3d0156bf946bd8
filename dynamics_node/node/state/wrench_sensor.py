"""A force/torque sensor: its readings without gravity and inertia of what is beyond it, and its calibration.

Readings have the sign of the sensor (`measures`) and are in its axes, moment first. Without ROS.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.estimation import Tool, identify_tool
from dynamics_node.functions import InputError, SolutionError
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.sensor_readings import SensorMessage, own_numbers
from dynamics_node.robot.sensors import ForceTorque
from dynamics_node.robot.subtree import subtree

WINDOW = 500_000_000  # ns of readings that are one pose
FEWEST_READINGS = 10
STILL = 2e-3  # rad or m that a joint may move meanwhile
MOST_POSES = 1000


class Pose(NamedTuple):
    """q (nq,) in a pose at rest, the mean wrench (6,) of the parent ON the child, gravity (3,)."""

    q: np.ndarray
    wrench: np.ndarray
    gravity: np.ndarray


class WrenchSensor:
    """Of a Core. sensor: that which wrench_sensor.name names; reason: why nothing is published, or ''."""

    def __init__(self):
        self.poses: list[Pose] = []
        self.sensor: ForceTorque | None = None
        self.reason = ""
        self._waiting: SensorMessage | None = None
        self._recent: deque[tuple[SensorMessage, np.ndarray]] = deque()  # with positions of the joints

    def apply(self, settings: Settings, robot: ServedRobot):
        """Take over settings, which may be ahead of the robot while it is built anew."""
        sensor, self._settings = robot.wrench_sensor, settings
        if sensor is not None and sensor.name != settings.wrench_sensor_name:
            sensor = None
        if sensor != self.sensor:
            self.forget()
            self.poses.clear()
        self.sensor, self._sign = sensor, sensor.sign if sensor is not None else 1.0
        self._timeout = int(settings.sensor_timeout * 1e9)
        bias = np.array(settings.wrench_sensor_bias or (0.0,) * 6)
        self._bias = np.concatenate([bias[3:], bias[:3]])

    def update(self, sensor, message: SensorMessage, position):
        """Take in a message, if it is of this sensor. Raises BadMessage."""
        if sensor != self.sensor:
            return
        self._waiting = message._replace(numbers=own_numbers(sensor, message), frame=sensor.frame)
        self._recent.append((self._waiting, position))
        while self._recent[0][0].received < message.received - WINDOW:
            self._recent.popleft()

    def forget(self):
        """Forget what was read, not the poses."""
        self._waiting = None
        self._recent.clear()

    def compensated(self, core, ros_now, steady_now) -> SensorMessage | None:
        """What is left of the newest message, if it was not answered yet. None when there is none or no fresh
        state: `reason` says why."""
        reading, self._waiting = self._waiting, None
        if reading is None:
            return None
        try:
            if steady_now - reading.received > self._timeout:
                raise NoOutput(f"the reading had waited for more than {self._timeout * 1e-9:g} s")
            carried = self._carried(core, ros_now, steady_now)
            left = reading.numbers - self._bias - self._sign * carried
            if not np.isfinite(left).all():
                raise NoOutput("the wrench is beyond all numbers")
        except NoOutput as reason:
            self.reason = str(reason)
            return None
        self.reason = ""
        return reading._replace(numbers=left)

    def status(self, steady_now) -> str:
        """For the diagnostics."""
        if self.sensor is None:
            return "off"
        if not self._recent:
            return "no reading yet"
        if (age := steady_now - self._recent[-1][0].received) > self._timeout:
            return f"no reading for {age * 1e-9:.1f} s"
        return f"silent: {self.reason}" if self.reason else f"compensated at {self.sensor.joint}"

    def _carried(self, core, ros_now, steady_now):
        """What moves and holds what is beyond, (6,) by the parent ON the child. Raises NoOutput."""
        q, qd = core.state.vectors_now(steady_now)
        qdd, source = np.zeros(core.model.nv), self._settings.wrench_sensor_acceleration
        if source == "reference":
            qdd = core.referred_acceleration(ros_now, steady_now)
        elif source == "filter":
            qdd = core.filtered_acceleration()
        try:
            return core.robot.carried(q, qd, qdd, gravity=core.gravity(steady_now))
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None

    # --- calibration --------------------------------------------------------------------------

    def collect(self, core, steady_now):
        """Take the mean of the last readings as a pose. Raises BadMessage and NoOutput, which say why not."""
        q, _ = core.state.vectors_now(steady_now, with_velocity=False)
        recent = [(m.numbers, position) for m, position in self._recent if m.received >= steady_now - WINDOW]
        if len(recent) < FEWEST_READINGS:
            raise BadMessage(f"{len(recent)} readings in {WINDOW * 1e-9:g} s, {FEWEST_READINGS} are wanted")
        moved = max(np.abs(position - core.joints.position).max(initial=0.0) for _, position in recent)
        if not moved <= STILL:
            raise BadMessage(f"a joint has moved by {moved:.2g} in {WINDOW * 1e-9:g} s: wait until it rests")
        if len(self.poses) >= MOST_POSES:
            raise BadMessage(f"{MOST_POSES} poses are there already")
        mean = np.mean([numbers for numbers, _ in recent], axis=0)
        self.poses.append(Pose(q, self._sign * mean, core.gravity(steady_now)))

    def tare(self, core, steady_now) -> tuple[Tool, np.ndarray, np.ndarray]:
        """`identified` by the last readings, of which nothing is left with that bias; the tool is as it is,
        and poses that were collected stay. Raises as `collect` and `identified`."""
        kept, self.poses = self.poses, []
        try:
            self.collect(core, steady_now)
            return self.identified(core, bias_only=True)
        finally:
            self.poses = kept

    def identified(self, core, bias_only=False) -> tuple[Tool, np.ndarray, np.ndarray]:
        """What the poses tell, and the bias (6,), and its deviations, as the sensor reads it. Raises
        ValueError, which says why not."""
        sensor: Any = self.sensor
        beyond = subtree(core.model.tree, sensor.joint).links
        if loaded := [link for link in core.payloads if link in beyond]:
            raise BadMessage(f"the payload on {loaded[0]!r} would count with the tool: take it off first")
        if not self.poses:
            raise BadMessage("no pose is collected yet")
        q, wrenches, gravity = (np.array(column) for column in zip(*self.poses, strict=True))
        choices = {"gravity": gravity, "tool": not bias_only, "xyz": sensor.xyz, "rpy": sensor.rpy}
        tool = identify_tool(core.model, sensor.joint, q, wrenches, **choices)
        return tool, self._sign * tool.bias, np.nan_to_num(tool.std[:6])
