"""Joint states merged by name: messages of several publishers, each of which may carry some of the joints."""

from typing import NamedTuple

import numpy as np

from dynamics_node.robot.joint_names import Pairs, renamed

STRANGERS = 100  # unknown names that are remembered, to propose a likely pair
LAYOUTS = 64  # orders of names that are remembered: somebody may send ever new ones


class Layout(NamedTuple):
    """Where the entries of a message go: its index `source` -> joint number `target`. order: the index of
    every joint, None when some are not in the message. unknown: how many names are none of the joints';
    strangers: the first STRANGERS of these."""

    source: np.ndarray
    target: np.ndarray
    order: np.ndarray | None
    unknown: int
    strangers: tuple[str, ...]


class JointBuffer:
    """The latest position, velocity and effort (n,) of every joint, NaN where no message had one.

    names: of the joints; pairs: (theirs, ours) names of joints that messages call otherwise; ignored: names
    of messages that are neither joints nor unknown.
    """

    def __init__(self, names, pairs: Pairs = (), ignored=()):
        self.names, self._pairs, self._ignored = tuple(names), pairs, frozenset(ignored)
        self._number = {name: k for k, name in enumerate(self.names)}
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self.clear()

    def __getstate__(self):
        """Without the names of messages, which are many and only save time."""
        return {**self.__dict__, "_layouts": {}}

    def clear(self):
        """Start again without any value."""
        self.position, self.velocity, self.effort = np.full((3, len(self.names)), np.nan)

    def layout(self, names) -> Layout:
        """Where the entries of a message with these names go. Raises ValueError for a joint that comes
        twice."""
        key = tuple(names)
        if (layout := self._layouts.get(key)) is None:
            layout = self._new_layout(key)
            if len(self._layouts) >= LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = layout
        return layout

    def _new_layout(self, theirs):
        ours = [renamed(name, self._pairs) for name in theirs] if self._pairs else theirs
        known: dict[str, int] = {}
        for k, name in enumerate(ours):
            if name in self._number:
                if name in known:
                    both = f"{theirs[known[name]]!r} and {theirs[k]!r}"
                    raise ValueError(f"a JointState has joint {name!r} twice, as {both}")
                known[name] = k
        source = np.array(list(known.values()), dtype=int)
        target = np.array([self._number[name] for name in known], dtype=int)
        order = source[np.argsort(target)] if len(known) == len(self.names) else None
        strangers = [
            their
            for their, our in zip(theirs, ours, strict=True)
            if our not in known and our not in self._ignored
        ]
        return Layout(source, target, order, len(strangers), tuple(strangers[:STRANGERS]))

    def merge(self, source, target, position, velocity, effort):
        """Take entries `source` of a message for the joints `target`; None leaves what is there."""
        for mine, values in ((self.position, position), (self.velocity, velocity), (self.effort, effort)):
            if values is not None:
                mine[target] = values[source]
