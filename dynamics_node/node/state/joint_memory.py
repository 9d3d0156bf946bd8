"""Latest state of the joints: partial messages of several publishers, merged by name."""

from math import hypot
from typing import NamedTuple

import numpy as np

from dynamics_node.node.errors import BadMessage
from dynamics_node.robot.joint_names import JointBuffer
from dynamics_node.robot.joints import KINDS

MAX_NAMES = 10_000
LARGEST = 1e8  # rad, m, s, N and N m: larger numbers in messages are errors, as numbers that are not finite
JUMP_BACK = 1_000_000_000  # ns of ROS time: a restarted bag, not a message out of order
NEVER = np.iinfo(np.int64).min
MAX_GAP = 500_000_000  # ns; largest gap between two positions for differentiation
MIN_GAP = 1_000_000  # ns; smallest gap: closer positions may come from different sources


class _PastPositions(NamedTuple):
    """Earlier positions and stamps of all joints; newest: the last of the stamps."""

    position: np.ndarray
    stamp: np.ndarray
    newest: int

    def merged(self, other, joints):
        """A copy with some joints of another state."""
        if not joints.size:
            return self
        position, stamp = self.position.copy(), self.stamp.copy()
        position[joints], stamp[joints] = other.position[joints], other.stamp[joints]
        return _PastPositions(position, stamp, max(self.newest, other.newest))


class JointMemory(JointBuffer):
    """Latest position, velocity and effort of every joint, with stamp (ns) and reception (steady ns).

    Positions are never NaN after the first message of a joint. velocity and effort are NaN if the last
    message had none.
    """

    def __init__(self, joints, needed=slice(None), followers=()):
        """joints: scalar joints of the robot; needed: indices of the required ones; followers: names of
        explicit joints (mimic, gear, belt), whose states are ignored."""
        super().__init__((joint.name for joint in joints), ignored=followers)
        self._continuous = np.array([KINDS[joint.kind].wraps for joint in joints], dtype=bool)
        self._needed, self._needed_names = needed, tuple(np.array(self.names, dtype=object)[needed])
        self._is_needed = np.zeros(len(self.names), dtype=bool)
        self._is_needed[needed] = True
        self.unknown = 0
        self.strangers: tuple[str, ...] = ()
        self.reset()

    def reset(self):
        """Clear the state."""
        n = len(self.names)
        self.clear()
        self.stamp, self.received = np.full((2, n), NEVER)
        self._oldest = NEVER
        self._before = self._between = _PastPositions(self.position, self.stamp, NEVER)
        self._newest = NEVER
        self._first: int | None = None
        self._has_effort = False

    def update(self, names, position, velocity, effort, stamp, now):
        """Merge a message; stamp and now in ns.

        Returns True if it updated a known joint. Raises BadMessage, and then nothing changes.
        """
        layout = self.layout(names)
        n = len(names)
        position = _field("position", position, n, required=True)
        velocity, effort = _field("velocity", velocity, n), _field("effort", effort, n)
        if not all_possible(position):
            layout = self._with_position(layout, position)
        self.unknown, self.strangers = layout.unknown, layout.strangers
        source, target = layout.source, layout.target
        if not target.size:
            return False
        if layout.order is not None and stamp > self._newest:
            self._replace(layout.order, position, velocity, effort, stamp, now)
            return True
        if self._jumped_back(stamp, target):
            self.reset()
        newer = stamp >= self.stamp[target]
        source, target = source[newer], target[newer]
        if not target.size:
            return False
        self._remember_before(target[self.stamp[target] < stamp], stamp)
        self._newest, self._has_effort = max(self._newest, stamp), True
        self.position, self.stamp = self.position.copy(), self.stamp.copy()
        absent = np.full(n, np.nan)
        velocity, effort = (absent if values is None else values for values in (velocity, effort))
        self.merge(source, target, position, velocity, effort)
        self.stamp[target] = stamp
        self.received[target] = now
        self._oldest = int(self.received[self._needed].min(initial=now))
        return True

    def _replace(self, order, position, velocity, effort, stamp, now):
        """The usual case: a message with all joints, newer than the stored state."""
        last = _PastPositions(self.position, self.stamp, self._newest)
        if last.newest <= stamp - MIN_GAP:
            self._before = self._between = last
        elif self._between.newest <= stamp - MIN_GAP:
            self._before, self._between = self._between, last
        n = len(self.names)
        self.position = position[order]
        self.velocity = velocity[order] if velocity is not None else np.full(n, np.nan)
        if effort is not None:
            self.effort = effort[order]
        elif self._has_effort:
            self.effort = np.full(n, np.nan)
        self._has_effort = effort is not None
        self.stamp = np.empty_like(last.stamp)  # `last` refers to the old one
        self.stamp.fill(stamp)
        self.received.fill(now)
        self._newest, self._oldest = stamp, now

    @property
    def newest(self):
        """The newest stamp, ns; 0 before the first message."""
        return max(self._newest, 0)

    @property
    def seconds(self):
        """Time of the newest state, s since the first state: by its stamp, or by its reception for drivers
        without stamps."""
        newest = self.newest or int(self.received.max(initial=0))
        if self._first is None:
            self._first = newest
        return (newest - self._first) * 1e-9

    def never_received(self):
        """Whether no joint state of any joint has arrived."""
        return not self.unknown and bool((self.received == NEVER).all())

    def missing(self):
        """Names of the needed joints without a message."""
        return self.joints_without(self.position)

    def oldest(self, default):
        """Oldest reception of the needed joints, NEVER if one is missing; default without joints."""
        return self._oldest if self._needed_names else default

    def stale(self, now, timeout):
        """Names of the needed joints without a message for `timeout` ns."""
        late = now - self.received[self._needed] > timeout
        return [self._needed_names[k] for k in np.flatnonzero(late)]

    def joints_without(self, values):
        """Names of the needed joints whose value is not `possible`."""
        missing = ~possible(values[self._needed])
        return [self._needed_names[k] for k in np.flatnonzero(missing)]

    def _new_layout(self, names):
        """Raises BadMessage for too many names and for duplicates."""
        require_few(names)
        require_once(names)
        return super()._new_layout(names)

    def _with_position(self, layout, position):
        """The layout without the joints whose position is not `possible`. Raises BadMessage for a needed
        joint; drivers may have no position of others, for example of wheels."""
        usable = possible(position[layout.source])
        source, target = layout.source[~usable], layout.target[~usable]
        if (needed := self._is_needed[target]).any():
            name, value = self.names[target[needed][0]], position[source[needed][0]]
            reason = f"position of {name!r} is {impossible(value)}"
            raise BadMessage(f"{reason}; exclude it with the parameter joints")
        order = layout.order if usable.all() else None
        return layout._replace(source=layout.source[usable], target=layout.target[usable], order=order)

    def _jumped_back(self, stamp, target):
        latest = int(self.stamp[target].max())
        return latest != NEVER and stamp < latest - JUMP_BACK

    def _remember_before(self, target, stamp):
        """Keep the positions that a newer message replaces, per joint."""
        last = _PastPositions(self.position, self.stamp, self._newest)
        far = target[self.stamp[target] <= stamp - MIN_GAP]
        near = target[self.stamp[target] > stamp - MIN_GAP]
        near = near[self._between.stamp[near] <= stamp - MIN_GAP]
        self._before = self._before.merged(last, far).merged(self._between, near)
        self._between = self._between.merged(last, far).merged(last, near)

    @np.errstate(over="ignore", invalid="ignore")
    def differentiated(self):
        """Velocity from positions at least MIN_GAP apart, NaN without an earlier position, infinite on
        overflow; continuous joints are unwrapped."""
        change = self.position - self._before.position
        wraps = self._continuous
        change[wraps] = (change[wraps] + np.pi) % (2 * np.pi) - np.pi
        gap = np.where(self._before.stamp == NEVER, 0, self.stamp - self._before.stamp)
        usable = (gap >= MIN_GAP) & (gap <= MAX_GAP)
        return np.where(usable, change / np.where(usable, gap * 1e-9, 1.0), np.nan)


def require_few(names):
    """Raise BadMessage for more than MAX_NAMES."""
    if len(names) > MAX_NAMES:
        raise BadMessage(f"{len(names)} names; the limit is {MAX_NAMES}")


def require_once(names, what="joint"):
    """Raise BadMessage with the first duplicate name."""
    seen = set()
    for name in names:
        if name in seen:
            raise BadMessage(f"{what} {name!r} is listed twice")
        seen.add(name)


def possible(values):
    """bool, of the shape of an array: whether a number is finite and at most LARGEST."""
    return np.abs(values) <= LARGEST


def impossible(value):
    """A number that is not `possible`, with the limit, for messages."""
    return f"{value:g}, above {LARGEST:g}" if np.isfinite(value) else f"{value}"


def all_possible(values):
    """Whether all numbers of an array (n,) are `possible`. Their norm, of few numbers faster than NumPy, is
    tried first."""
    return hypot(*values.tolist()) <= LARGEST or bool(possible(values).all())


def require_possible(what, names, values):
    """Raise BadMessage with the first number of an array (n,) that is neither NaN nor `possible`."""
    if (wrong := np.flatnonzero(~(possible(values) | np.isnan(values)))).size:
        raise BadMessage(f"{what} of {names[wrong[0]]!r} is {impossible(values[wrong[0]])}")


def _field(name, values, count, required=False):
    """values as an array; None if empty and not required."""
    if not len(values) and not required:
        return None
    if len(values) != count:
        raise BadMessage(f"{count} names but {len(values)} entries in {name}")
    return np.asarray(values, dtype=float)
