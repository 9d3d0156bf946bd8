"""Joints by name: names in a driver or a recording that differ from the description's, and merged states.

A map is a tuple of pairs (theirs, ours) of names, or of patterns with one star on both sides, which stands
for the common part: ("fer_*", "panda_*") maps fer_joint1 to panda_joint1, ("*", "left_*") prepends left_ to
every name. The first matching pair applies; unmatched names stay the same.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot.description import LONGEST_NAME
from dynamics_node.robot.robot import Robot

Pairs = tuple[tuple[str, str], ...]
MAX_PATTERNS = 100  # pairs with a star, which every name is compared with


def name_pairs(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """The pairs, checked. Raises ValueError naming an invalid one."""
    pairs = tuple((str(theirs), str(ours)) for theirs, ours in pairs)
    known: set[str] = set()
    patterns = 0
    for theirs, ours in pairs:
        pair = f"{theirs}={ours}"
        if len(pair) > 2 * LONGEST_NAME:
            raise InputError(f"{pair[:50]!r}... has {len(pair)} characters; the limit is {2 * LONGEST_NAME}")
        if not theirs or not ours:
            raise InputError(f"{pair!r} has an empty side")
        if theirs.count("*") > 1 or ours.count("*") > 1 or theirs.count("*") != ours.count("*"):
            raise InputError(f"{pair!r} needs one star on both sides, or none")
        if theirs in known:
            raise InputError(f"{theirs!r} is mapped twice")
        known.add(theirs)
        patterns += "*" in theirs
    if patterns > MAX_PATTERNS:
        raise InputError(f"{patterns} pairs with a star; the limit is {MAX_PATTERNS}")
    return pairs


def renamed(name: str, pairs: Pairs) -> str:
    """Our name for their joint."""
    return all_renamed([name], pairs)[0]


def all_renamed(names: Iterable[str], pairs: Pairs) -> list[str]:
    """Our names for their joints."""
    numbered = [(k, theirs, ours) for k, (theirs, ours) in enumerate(pairs)]
    plain = {theirs: (k, ours) for k, theirs, ours in reversed(numbered) if "*" not in theirs}
    patterns = [row for row in numbered if "*" in row[1]]
    return [_renamed(name, plain, patterns) for name in names]


def _renamed(name, plain, patterns):
    first, ours_plainly = plain.get(name, (len(plain) + len(patterns), name))
    for number, theirs, ours in patterns:
        head, _, tail = theirs.partition("*")
        long_enough = number < first and len(name) >= len(head) + len(tail)
        if long_enough and name.startswith(head) and name.endswith(tail):
            return ours.replace("*", name[len(head) : len(name) - len(tail)])
    return ours_plainly


def inverse_pairs(pairs: Pairs) -> Pairs:
    """The map from our names to theirs."""
    return tuple((ours, theirs) for theirs, ours in pairs)


def with_their_names(robot: Robot, pairs: Pairs) -> Robot:
    """The Robot with their joint names. Raises ValueError if two joints get one name."""
    back = inverse_pairs(pairs)
    taken: dict[str, str] = {}
    names = [joint.name for joint in _scalar(robot)]
    theirs = dict(zip(names, all_renamed(names, back), strict=True))
    for ours, name in theirs.items():
        if name in taken:
            raise InputError(f"joints {taken[name]!r} and {ours!r} are both called {name!r}")
        taken[name] = ours
    bodies = tuple(replace(body, joint=_called(body.joint, theirs)) for body in robot.bodies)
    return replace(robot, bodies=bodies) if pairs else robot


def _scalar(robot):
    return [body.joint for body in robot.bodies if body.joint.type.is_scalar]


def _called(joint, names):
    masters = joint.masters and joint.masters._replace(names=tuple(map(names.get, joint.masters.names)))
    return replace(joint, name=names.get(joint.name, joint.name), masters=masters)


def proposed_pair(theirs: Iterable[str], ours: Iterable[str]) -> tuple[str, str] | None:
    """The pair of patterns that maps all of our names, by their endings, to theirs. Its prefixes are as short
    as possible and end with a separator if they can. None if there is none."""
    names, ours = {name for name in theirs if len(name) <= LONGEST_NAME}, list(ours)
    if not names or not ours or not all(ours):
        return None
    prefix = _common_prefix(min(ours), max(ours))
    last = min(len(prefix), min(map(len, ours)) - 1)  # an ending has a character
    found = []
    for name in names:  # of our first joint: it determines those of the others for every cut
        head = name.removesuffix(ours[0][last:])
        if head != name and all(head + our[last:] in names for our in ours):
            common = len(_common_prefix(head[::-1], prefix[:last][::-1]))
            cuts = range(last - common, last + 1)
            cut = next((cut for cut in cuts if _is_boundary(prefix, cut)), cuts[0])
            found.append((not _is_boundary(prefix, cut), cut, name))
    if not found:
        return None
    _, cut, name = min(found)
    return f"{name.removesuffix(ours[0][cut:])}*", f"{prefix[:cut]}*"


def _common_prefix(a, b):
    return a[: next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def _is_boundary(prefix, cut):
    return cut == 0 or not prefix[cut - 1].isalnum()


# --- messages of several publishers, each with some of the joints -------------------------------------------

STRANGERS = 100  # unknown names that are stored, to propose a likely pair
LAYOUTS = 64  # orders of names that are cached; a publisher may send any number of them


class Layout(NamedTuple):
    """The map from the entries of a message to joints: index `source` -> joint number `target`. order: the
    index of every joint, None if the message lacks some. unknown: number of unknown names; strangers: the
    first STRANGERS of them."""

    source: np.ndarray
    target: np.ndarray
    order: np.ndarray | None
    unknown: int
    strangers: tuple[str, ...]


class JointBuffer:
    """The latest position, velocity and effort (n,) of every joint, NaN if no message had one.

    names: of the joints; pairs: (theirs, ours) names of joints; ignored: names in messages that are neither
    joints nor unknown.
    """

    def __init__(self, names, pairs: Pairs = (), ignored=()):
        self.names, self._pairs, self._ignored = tuple(names), pairs, frozenset(ignored)
        self._number = {name: k for k, name in enumerate(self.names)}
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self.clear()

    def __getstate__(self):
        """The state without the cached layouts, which are large and only save time."""
        return {**self.__dict__, "_layouts": {}}

    def clear(self):
        """Remove all values."""
        self.position, self.velocity, self.effort = np.full((3, len(self.names)), np.nan)

    def layout(self, names) -> Layout:
        """The Layout of a message with these names. Raises ValueError for a joint that occurs twice."""
        key = tuple(names)
        if (layout := self._layouts.get(key)) is None:
            layout = self._new_layout(key)
            if len(self._layouts) >= LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = layout
        return layout

    def _new_layout(self, theirs):
        ours = all_renamed(theirs, self._pairs) if self._pairs else theirs
        known: dict[str, int] = {}
        for k, name in enumerate(ours):
            if name in self._number:
                if name in known:
                    both = f"{theirs[known[name]]!r} and {theirs[k]!r}"
                    raise InputError(f"a JointState has joint {name!r} twice, as {both}")
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
        """Copy entries `source` of a message to the joints `target`; None keeps the present values."""
        for mine, values in ((self.position, position), (self.velocity, velocity), (self.effort, effort)):
            if values is not None:
                mine[target] = values[source]
