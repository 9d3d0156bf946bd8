"""What is known of the joints: partial messages of several publishers, merged by name."""

from math import isfinite
from typing import NamedTuple

import numpy as np

MAX_NAMES = 10_000
JUMP_BACK = 1_000_000_000  # ns of ROS time: a bag that loops, not a message out of order
NEVER = np.iinfo(np.int64).min
MAX_GAP = 500_000_000  # ns between two positions that may still be differentiated


class BadMessage(ValueError):
    """A message that is dropped whole; the text is the reason."""


class _Layout(NamedTuple):
    """Where the entries of a message go: its index -> joint number.

    order: the index of every joint, None when some are not in the message.
    """

    source: np.ndarray
    target: np.ndarray
    unknown: int
    order: np.ndarray | None


class JointMemory:
    """Latest position, velocity and effort of every joint, with stamp (ns) and reception (steady ns).

    Never NaN in position once seen. velocity and effort are NaN where the last message had none.
    """

    def __init__(self, joints, needed=slice(None)):
        """joints: those of the model with one coordinate; needed: which of them must be seen."""
        self.names = tuple(joint.name for joint in joints)
        self._number = {name: k for k, name in enumerate(self.names)}
        self._continuous = np.array([joint.kind == "continuous" for joint in joints], dtype=bool)
        self._needed, self._needed_names = needed, tuple(np.array(self.names, dtype=object)[needed])
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self.unknown = 0
        self.reset()

    def reset(self):
        """Forget everything."""
        n = len(self.names)
        self.position, self.velocity, self.effort, self._position_before = np.full((4, n), np.nan)
        self.stamp, self.received, self._stamp_before = np.full((3, n), NEVER)
        self._newest = NEVER
        self._has_effort = False

    def update(self, names, position, velocity, effort, stamp, now):
        """Take in a message; stamp and now in ns.

        Returns True when it moved a joint we know. Raises BadMessage, and then nothing has changed.
        """
        layout = self._layout(names)
        n = len(names)
        position = _field("position", position, n, required=True)
        velocity, effort = _field("velocity", velocity, n), _field("effort", effort, n)
        if not all_finite(position):
            at = int(np.flatnonzero(~np.isfinite(position))[0])
            raise BadMessage(f"position of {names[at]!r} is {position[at]}")
        self.unknown = layout.unknown
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
        self._newest, self._has_effort = max(self._newest, stamp), True
        self._remember_before(target, stamp)
        self.position[target] = position[source]
        self.velocity[target] = velocity[source] if velocity is not None else np.nan
        self.effort[target] = effort[source] if effort is not None else np.nan
        self.stamp[target] = stamp
        self.received[target] = now
        return True

    def _replace(self, order, position, velocity, effort, stamp, now):
        """The usual case: a message with all joints, newer than all that is known."""
        self._position_before, self._stamp_before = self.position, self.stamp
        n = len(self.names)
        self.position = position[order]
        self.velocity = velocity[order] if velocity is not None else np.full(n, np.nan)
        if effort is not None:
            self.effort = effort[order]
        elif self._has_effort:
            self.effort = np.full(n, np.nan)
        self._has_effort = effort is not None
        self.stamp, self.received = np.full(n, stamp), np.full(n, now)
        self._newest = stamp

    def missing(self):
        """Names of the needed joints that were never seen."""
        return self.without(self.position)

    def oldest(self, default):
        """Reception of the needed joint that was heard of longest ago, NEVER before; default without
        joints."""
        return self.received[self._needed].min(initial=default)

    def stale(self, now, timeout):
        """Names of the needed joints not heard of for `timeout` ns."""
        late = now - self.received[self._needed] > timeout
        return [self._needed_names[k] for k in np.flatnonzero(late)]

    def without(self, values):
        """Names of the needed joints whose value is not finite."""
        lacking = ~np.isfinite(values[self._needed])
        return [self._needed_names[k] for k in np.flatnonzero(lacking)]

    def _layout(self, names):
        key = tuple(names)
        if (layout := self._layouts.get(key)) is not None:
            return layout
        if len(key) > MAX_NAMES:
            raise BadMessage(f"{len(key)} names; the limit is {MAX_NAMES}")
        if len(set(key)) != len(key):
            twice = next(name for name in key if key.count(name) > 1)
            raise BadMessage(f"joint {twice!r} is named twice")
        known = [(k, self._number[name]) for k, name in enumerate(key) if name in self._number]
        source, target = np.array(known, dtype=int).reshape(-1, 2).T
        order = source[np.argsort(target)] if len(known) == len(self.names) else None
        layout = _Layout(source, target, len(key) - len(known), order)
        if len(self._layouts) >= 64:  # somebody sends ever new names
            self._layouts.clear()
        self._layouts[key] = layout
        return layout

    def _jumped_back(self, stamp, target):
        latest = int(self.stamp[target].max())
        return latest != NEVER and stamp < latest - JUMP_BACK

    def _remember_before(self, target, stamp):
        """Keep what a message with a later stamp replaces."""
        target = target[self.stamp[target] < stamp]
        self._position_before[target] = self.position[target]
        self._stamp_before[target] = self.stamp[target]

    def differentiated(self):
        """Velocity from the last two positions, NaN without; a continuous joint may have wrapped."""
        change = self.position - self._position_before
        wraps = self._continuous
        change[wraps] = (change[wraps] + np.pi) % (2 * np.pi) - np.pi
        gap = np.where(self._stamp_before == NEVER, 0, self.stamp - self._stamp_before)
        usable = (gap > 0) & (gap <= MAX_GAP)
        return np.where(usable, change / np.where(usable, gap * 1e-9, 1.0), np.nan)


def all_finite(values):
    """True when no entry of an array (n,) is infinite or NaN: one product where that will do."""
    return isfinite(values @ values) or bool(np.isfinite(values).all())


def _field(name, values, count, required=False):
    """values as an array; None when empty and that is allowed."""
    if not len(values) and not required:
        return None
    if len(values) != count:
        raise BadMessage(f"{count} names but {len(values)} entries in {name}")
    return np.array(values, dtype=float)
