"""Joints by name: joints that a driver or a recording calls otherwise, and joint states merged by name.

A map is a tuple of pairs (theirs, ours), of names or of patterns with one star on both sides, which stands
for what stays: ("fer_*", "panda_*") makes panda_joint1 of fer_joint1, ("*", "left_*") puts left_ before every
name. The first pair that fits counts; names that no pair fits stay as they are.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.robot import Robot

Pairs = tuple[tuple[str, str], ...]


def name_pairs(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """The pairs, checked. Raises ValueError naming the one that cannot be."""
    pairs = tuple((str(theirs), str(ours)) for theirs, ours in pairs)
    for at, (theirs, ours) in enumerate(pairs):
        pair = f"{theirs}={ours}"
        if not theirs or not ours:
            raise ValueError(f"{pair!r} has an empty side")
        if theirs.count("*") > 1 or ours.count("*") > 1 or theirs.count("*") != ours.count("*"):
            raise ValueError(f"{pair!r} needs one star on both sides, or none")
        if theirs in (before for before, _ in pairs[:at]):
            raise ValueError(f"{theirs!r} is mapped twice")
    return pairs


def renamed(name: str, pairs: Pairs) -> str:
    """Our name of their joint."""
    for theirs, ours in pairs:
        head, star, tail = theirs.partition("*")
        if not star:
            if name == theirs:
                return ours
        elif len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail):
            return ours.replace("*", name[len(head) : len(name) - len(tail)])
    return name


def turned_round(pairs: Pairs) -> Pairs:
    """The map from our names to theirs."""
    return tuple((ours, theirs) for theirs, ours in pairs)


def with_their_names(model: Robot, pairs: Pairs) -> Robot:
    """The model whose joints are called as they call them. Raises ValueError when two get one name."""
    back = turned_round(pairs)
    taken: dict[str, str] = {}
    theirs = {joint.name: renamed(joint.name, back) for joint in _scalar(model)}
    for ours, name in theirs.items():
        if name in taken:
            raise ValueError(f"joints {taken[name]!r} and {ours!r} are both called {name!r}")
        taken[name] = ours
    bodies = tuple(replace(body, joint=_called(body.joint, theirs)) for body in model.bodies)
    return replace(model, bodies=bodies) if pairs else model


def _scalar(model):
    return [body.joint for body in model.bodies if body.joint.type.is_scalar]


def _called(joint, names):
    masters = joint.masters and joint.masters._replace(names=tuple(names[own] for own in joint.masters.names))
    return replace(joint, name=names.get(joint.name, joint.name), masters=masters)


def proposed_pair(theirs: Iterable[str], ours: Iterable[str]) -> tuple[str, str] | None:
    """The pair of patterns that finds each of our names among theirs by its ending: prefixes as short as
    can be that end with a separator, else any. None where there is none."""
    names, ours = set(theirs), list(ours)
    if not names or not ours:
        return None
    prefix = _common_prefix(min(ours), max(ours))
    cuts = sorted(range(len(prefix) + 1), key=lambda cut: (not _is_boundary(prefix, cut), cut))
    for cut in cuts:
        endings = [name[cut:] for name in ours]
        if not all(endings):
            continue
        for name in sorted(names):
            head = name.removesuffix(endings[0])
            if head != name and all(head + ending in names for ending in endings):
                return f"{head}*", f"{prefix[:cut]}*"
    return None


def _common_prefix(a, b):
    return a[: next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def _is_boundary(prefix, cut):
    return cut == 0 or not prefix[cut - 1].isalnum()


# --- messages of several publishers, each of which may carry some of the joints -----------------------------

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
