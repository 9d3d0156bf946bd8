"""A force/torque sensor: tool compensation of its readings, and calibration.

Readings have the sign of the sensor (`measures`) and are in its axes, moment first. Without ROS.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SolutionError
from dynamics_node.estimation import Tool, identify_tool
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.joint_memory import LARGEST, possible
from dynamics_node.node.state.sensor_readings import SensorMessage, numbers_of
from dynamics_node.robot.sensors import ForceTorque
from dynamics_node.robot.subtree import subtree

WINDOW = 500_000_000  # ns of readings in one pose
FEWEST_READINGS = 10
STILL = 2e-3  # rad or m; largest motion of a joint in a pose
MOST_POSES = 1000


class RestPose(NamedTuple):
    """q (nq,) at rest, the mean wrench (6,) by the parent ON the child, gravity (3,)."""

    q: np.ndarray
    wrench: np.ndarray
    gravity: np.ndarray


class WrenchSensor:
    """The force/torque sensor of a Core. sensor: of wrench_sensor.name; reason: for no output, or ''."""

    def __init__(self):
        self.poses: list[RestPose] = []
        self.sensor: ForceTorque | None = None
        self.reason = ""
        self._newest: SensorMessage | None = None
        self._recent: deque[tuple[SensorMessage, np.ndarray]] = deque()  # with joint positions

    def apply(self, settings: Settings, robot: ServedRobot):
        """Apply settings, which may be newer than the robot during a rebuild."""
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
        """Store a message of this sensor; others are ignored. Raises BadMessage."""
        if sensor != self.sensor:
            return
        self._newest = message._replace(numbers=numbers_of(sensor, message), frame=sensor.frame)
        self._recent.append((self._newest, position))
        while self._recent[0][0].received < message.received - WINDOW:
            self._recent.popleft()

    def forget(self):
        """Clear the readings, not the poses."""
        self._newest = None
        self._recent.clear()

    def compensated(self, core, ros_now, steady_now) -> SensorMessage | None:
        """The newest message with tool compensation, once. None without a message or a fresh state, see
        `reason`."""
        reading, self._newest = self._newest, None
        if reading is None:
            return None
        try:
            if steady_now - reading.received > self._timeout:
                raise NoOutput(f"the reading is older than {self._timeout * 1e-9:g} s")
            tool_wrench = self._tool_wrench(core, ros_now, steady_now)
            wrench = reading.numbers - self._bias - self._sign * tool_wrench
            if not possible(wrench).all():
                raise NoOutput(f"the compensated wrench is not finite, or above {LARGEST:g}")
        except NoOutput as reason:
            self.reason = str(reason)
            return None
        self.reason = ""
        return reading._replace(numbers=wrench)

    def status(self, steady_now) -> str:
        """For the diagnostics."""
        if self.sensor is None:
            return "off"
        if not self._recent:
            return "no reading yet"
        if (age := steady_now - self._recent[-1][0].received) > self._timeout:
            return f"no reading for {age * 1e-9:.1f} s"
        return f"no output: {self.reason}" if self.reason else f"compensated at {self.sensor.joint}"

    def _tool_wrench(self, core, ros_now, steady_now):
        """Wrench of gravity and inertia of the tool, (6,) by the parent ON the child. Raises NoOutput."""
        q, qd = core.state.vectors_now(steady_now)
        qdd, source = np.zeros(core.model.nv), self._settings.wrench_sensor_acceleration
        if source == "reference":
            qdd = core.reference_acceleration(ros_now, steady_now)
        elif source == "filter":
            qdd = core.filtered_acceleration()
        try:
            return core.robot.sensor_wrench(q, qd, qdd, gravity=core.gravity(steady_now))
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None

    # --- calibration --------------------------------------------------------------------------

    def collect(self, core, steady_now):
        """Add the mean of the last readings as a pose. Raises BadMessage and NoOutput with the reason."""
        q, _ = core.state.vectors_now(steady_now, with_velocity=False)
        recent = [(m.numbers, position) for m, position in self._recent if m.received >= steady_now - WINDOW]
        if len(recent) < FEWEST_READINGS:
            raise BadMessage(f"{len(recent)} readings in {WINDOW * 1e-9:g} s; a pose needs {FEWEST_READINGS}")
        moved = max(np.abs(position - core.joints.position).max(initial=0.0) for _, position in recent)
        if not moved <= STILL:
            raise BadMessage(
                f"a joint moved by {moved:.2g} in {WINDOW * 1e-9:g} s: wait until the robot is at rest"
            )
        if len(self.poses) >= MOST_POSES:
            raise BadMessage(f"the limit of {MOST_POSES} poses is reached: reset them")
        mean = np.mean([numbers for numbers, _ in recent], axis=0)
        self.poses.append(RestPose(q, self._sign * mean, core.gravity(steady_now)))

    def tare(self, core, steady_now) -> tuple[Tool, np.ndarray, np.ndarray]:
        """The bias that compensates the last readings to zero with the current tool; collected poses are
        kept. Returns and raises as `identified`, and raises as `collect`."""
        kept, self.poses = self.poses, []
        try:
            self.collect(core, steady_now)
            return self.identified(core, bias_only=True)
        finally:
            self.poses = kept

    def identified(self, core, bias_only=False) -> tuple[Tool, np.ndarray, np.ndarray]:
        """The tool identified from the poses, and the bias (6,) with its standard deviations, with the sign
        of the sensor. Raises ValueError with the reason."""
        sensor: Any = self.sensor
        links = subtree(core.model.tree, sensor.joint).links
        if loaded := [link for link in core.payloads if link in links]:
            raise BadMessage(
                f"the payload on {loaded[0]!r} would be identified as part of the tool: remove it first"
            )
        if not self.poses:
            raise BadMessage("no pose is collected yet")
        q, wrenches, gravity = (np.array(column) for column in zip(*self.poses, strict=True))
        choices = {"gravity": gravity, "tool": not bias_only, "xyz": sensor.xyz, "rpy": sensor.rpy}
        tool = identify_tool(core.model, sensor.joint, q, wrenches, **choices)
        return tool, self._sign * tool.bias, np.nan_to_num(tool.std[:6])
