"""A force/torque sensor: its readings without gravity and inertia of what is beyond it, and its calibration.

Readings have the sign that the sensor has, which `wrench_sensor.measures` tells; the library's is that of the
wrench of the parent ON the child. Moment first. Without ROS.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.estimation import Tool, identify_tool
from dynamics_node.functions import InputError, SolutionError
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.errors import BadMessage, NoOutput
from dynamics_node.node.core.settings import Settings
from dynamics_node.robot.subtree import subtree
from dynamics_node.symbolic import inverse_motion_transform, matvec, transpose

SIGNS = {"child_to_parent": -1.0, "parent_to_child": 1.0}
WINDOW = 500_000_000  # ns of readings that are one pose
FEWEST_READINGS = 10
STILL = 2e-3  # rad or m that a joint may move meanwhile
MOST_POSES = 1000


class Reading(NamedTuple):
    """wrench (6,) in the axes of link `frame` at its origin; stamp: of the message; received: steady ns;
    position: of the joints when it came."""

    frame: str
    wrench: np.ndarray
    stamp: Any
    received: int
    position: np.ndarray


class Pose(NamedTuple):
    """q (nq,) and the mean reading (6,) in a pose at rest; gravity (3,)."""

    q: np.ndarray
    wrench: np.ndarray
    gravity: np.ndarray


class WrenchSensor:
    """The sensor of a Core, at the joint that parameters name. reason: why nothing is published, or ''."""

    def __init__(self):
        self.poses: list[Pose] = []
        self.joint = self.reason = ""
        self._waiting: Reading | None = None
        self._last: Reading | None = None
        self._recent: deque[Reading] = deque()

    def apply(self, settings: Settings, robot: ServedRobot):
        """Take over settings, which may be ahead of the robot while it is built anew."""
        model, before = robot.model, self.joint
        self.joint, self._settings = "", settings
        if settings.wrench_sensor_joint == robot.sensor_joint:
            self.joint = robot.sensor_joint
        if self.joint != before:
            self.forget()
            self.poses.clear()
        self._sign = SIGNS[settings.wrench_sensor_measures]
        self._timeout = int(settings.wrench_sensor_timeout * 1e9)
        bias = np.array(settings.wrench_sensor_bias or (0.0,) * 6)
        self._bias = np.concatenate([bias[3:], bias[:3]])
        self._own: Any = subtree(model.tree, self.joint) if self.joint else None
        self._frames = model.tree.frames

    def read(self, frame, wrench, stamp, received, position):
        """Take in a reading; wrench (6,) moment first. Raises BadMessage."""
        frame = frame or self._own.link
        if frame not in self._frames:
            raise BadMessage(f"frame_id {frame!r} is no link of the robot")
        if self._frames[frame].body != self._own.body:
            raise BadMessage(f"frame_id {frame!r} moves against {self._own.link!r}, where the sensor is")
        wrench = np.array(wrench, dtype=float)
        if not np.isfinite(wrench).all():
            raise BadMessage("a reading is not finite")
        if self._last is not None and self._last.frame != frame:
            self._recent.clear()
        self._waiting = self._last = Reading(frame, wrench, stamp, received, position)
        self._recent.append(self._last)
        while self._recent[0].received < received - WINDOW:
            self._recent.popleft()

    def forget(self):
        """Forget what was read, not the poses."""
        self._waiting = self._last = None
        self._recent.clear()

    def compensated(self, core, ros_now, steady_now) -> Reading | None:
        """What is left of the newest reading, if it was not answered yet. None when there is none or no fresh
        state: `reason` says why."""
        reading, self._waiting = self._waiting, None
        if reading is None:
            return None
        try:
            if steady_now - reading.received > self._timeout:
                raise NoOutput(f"the reading had waited for more than {self._timeout * 1e-9:g} s")
            carried = self._carried(core, reading.frame, ros_now, steady_now)
            left = reading.wrench - self._bias - self._sign * carried
            if not np.isfinite(left).all():
                raise NoOutput("the wrench is beyond all numbers")
        except NoOutput as reason:
            self.reason = str(reason)
            return None
        self.reason = ""
        return reading._replace(wrench=left)

    def status(self, steady_now) -> str:
        """For the diagnostics."""
        if not self.joint:
            return "off"
        if self._last is None:
            return "no reading yet"
        if steady_now - self._last.received > self._timeout:
            return f"no reading for {(steady_now - self._last.received) * 1e-9:.1f} s"
        return f"silent: {self.reason}" if self.reason else f"compensated at {self.joint}"

    def _carried(self, core, frame, ros_now, steady_now):
        """What moves and holds what is beyond, (6,) in the axes of a link. Raises NoOutput."""
        q, qd = core.state.vectors_now(steady_now)
        qdd, source = np.zeros(core.model.nv), self._settings.wrench_sensor_acceleration
        if source == "reference":
            qdd = core.referred_acceleration(ros_now, steady_now)
        elif source == "filter":
            qdd = core.filtered_acceleration()
        try:
            wrench = core.robot.carried(q, qd, qdd, gravity=core.gravity(steady_now))
        except (InputError, SolutionError) as error:
            raise NoOutput(error) from None
        return matvec(transpose(inverse_motion_transform(self._transform(frame))), wrench)

    def _transform(self, frame):
        """X (6, 6) from the child link of the joint to a link of the same body."""
        return self._frames[frame].X @ inverse_motion_transform(self._own.X)

    # --- calibration --------------------------------------------------------------------------

    def collect(self, core, steady_now):
        """Take the mean of the last readings as a pose. Raises BadMessage and NoOutput, which say why not."""
        q, _ = core.state.vectors_now(steady_now, with_velocity=False)
        recent = [r for r in self._recent if r.received >= steady_now - WINDOW]
        if len(recent) < FEWEST_READINGS:
            raise BadMessage(f"{len(recent)} readings in {WINDOW * 1e-9:g} s, {FEWEST_READINGS} are wanted")
        moved = max(np.abs(r.position - core.joints.position).max(initial=0.0) for r in recent)
        if not moved <= STILL:
            raise BadMessage(f"a joint has moved by {moved:.2g} in {WINDOW * 1e-9:g} s: wait until it rests")
        if len(self.poses) >= MOST_POSES:
            raise BadMessage(f"{MOST_POSES} poses are there already")
        mean = np.mean([r.wrench for r in recent], axis=0)
        X = self._transform(recent[-1].frame)
        self.poses.append(Pose(q, self._sign * matvec(transpose(X), mean), core.gravity(steady_now)))

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
        """What the poses tell, at the child link, and the bias (6,), and its deviations, as the sensor
        reads it in its frame. Raises ValueError, which says why not."""
        own = subtree(core.model.tree, self.joint)
        if loaded := [link for link in core.payloads if link in own.links]:
            raise BadMessage(f"the payload on {loaded[0]!r} would count with the tool: take it off first")
        if not self.poses or self._last is None:
            raise BadMessage("no pose is collected yet")
        q, wrenches, gravity = (np.array(column) for column in zip(*self.poses, strict=True))
        tool = identify_tool(core.model, self.joint, q, wrenches, gravity=gravity, tool=not bias_only)
        T = self._sign * transpose(inverse_motion_transform(self._transform(self._last.frame)))
        std = np.sqrt(np.diag(T @ tool.covariance[:6, :6] @ T.T))
        return tool, T @ tool.bias, np.nan_to_num(std)
