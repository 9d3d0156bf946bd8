"""Explicit joints: those whose position is a linear function of others, as a mimic, a gear or a belt says.

Each of these is an equation between positions of joints. One joint after the other is eliminated; what is
left are joints that follow no other one.
"""

from typing import NamedTuple

from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.errors import ModelError
from dynamics_node.robot.joints import KINDS

ROUNDING = 1e-12  # of the largest weight of an equation: what cancels


class Explicit(NamedTuple):
    """position = sum of weights[joint] times the position of the joint, + offset (rad or m)."""

    weights: dict[str, float]
    offset: float


class _Equation(NamedTuple):
    """sum of weights[joint] times the position of the joint = offset. candidates: joints of which the first
    that has a weight becomes explicit."""

    name: str
    weights: dict[str, float]
    offset: float
    candidates: tuple[str, ...]


def explicit_joints(description: Description) -> dict[str, Explicit]:
    """{joint: what it follows}, of joints that follow none. Raises ModelError where mimics, gears and belts
    leave a joint no motion, or contradict each other."""
    found: dict[str, Explicit] = {}
    followers: dict[str, set[str]] = {}  # of every joint, the explicit ones that follow it
    for equation in (*_mimics(description), *_couplings(description)):
        weights, offset = _substituted(equation.weights, equation.offset, found)
        name = next((name for name in equation.candidates if name in weights), None)
        if name is None:
            if abs(offset) > ROUNDING:
                raise ModelError(f"{equation.name!r} contradicts other mimics or couplings by {offset:.3g}")
            continue
        pivot = weights.pop(name)
        if not weights:
            raise ModelError(f"{equation.name!r}: joint {name!r} cannot move (mobility 0)")
        own = {name: Explicit({other: -weight / pivot for other, weight in weights.items()}, offset / pivot)}
        changed = {other: _resolved(found[other], own) for other in followers.pop(name, ())} | own
        for other, explicit in changed.items():
            for master in explicit.weights:
                followers.setdefault(master, set()).add(other)
        found |= changed
    return found


def _resolved(explicit, others):
    weights, offset = _substituted(explicit.weights, -explicit.offset, others)
    return Explicit(weights, -offset)


def _substituted(weights, offset, explicit):
    """Weights and offset of an equation in which explicit joints are replaced by what they follow."""
    total: dict[str, float] = {}
    for name, weight in weights.items():
        own = explicit.get(name, Explicit({name: 1.0}, 0.0))
        offset = offset - weight * own.offset
        for other, part in own.weights.items():
            total[other] = total.get(other, 0.0) + weight * part
    largest = max((abs(weight) for weight in weights.values()), default=0.0)
    return {name: weight for name, weight in total.items() if abs(weight) > ROUNDING * largest}, offset


# --- equations ----------------------------------------------------------------------------------------------


def _mimics(description):
    """Of joints that mimic others; the joint that mimics becomes explicit, whatever others are marked as."""
    joints = {joint.name: joint for joint in description.joints}
    for joint in _masters_first(joints):
        master = joint.mimic.joint
        if master not in joints:
            raise ModelError(f"joint {joint.name!r} mimics {master!r}, which is cut off")
        weights = {joint.name: 1.0, master: -joint.mimic.multiplier}
        yield _Equation(joint.name, weights, joint.mimic.offset, (joint.name,))


def _masters_first(joints):
    """The joints that mimic others, each after the one that it mimics."""
    done: set[str] = set()
    for joint in joints.values():
        way = []
        while joint is not None and joint.name not in done and joint.mimic is not None:
            done.add(joint.name)
            way.append(joint)
            joint = joints.get(joint.mimic.joint)
        yield from (joint for joint in reversed(way) if joint.kind != "fixed")


def _couplings(description):
    """Of gears and belts. A joint that the file marks as dependent becomes explicit; else the one that
    carries the fewest links, as rotors do, of equal ones the later."""
    up = {joint.child: joint for joint in description.joints}
    places = {joint.name: k for k, joint in enumerate(description.joints)}
    carried = _carries(up) if description.couplings else {}
    for coupling in description.couplings:
        ways = joints_apart(up, coupling.predecessor, coupling.successor)
        weights: dict[str, float] = {}
        for joints, factor in zip(ways, (coupling.ratio, -1.0), strict=True):
            for joint in joints:
                _require_single_position(coupling, joint)
                weights[joint.name] = factor
        if not weights:
            raise ModelError(f"coupling {coupling.name!r}: no joint moves its links against each other")
        order = sorted(
            (*ways[0], *ways[1]),
            key=lambda own: (own.independent is not False, carried[own.child], -places[own.name]),
        )
        yield _Equation(coupling.name, weights, 0.0, tuple(joint.name for joint in order))


def _carries(up):
    """{link: how many links hang on it, itself included}. up: {child link: joint}."""
    found: dict[str, int] = dict.fromkeys(up, 0)
    for link in up:
        for joint in _above(up, link):
            found[joint.child] += 1
    return found


def joints_apart(up, first, second) -> tuple[list[JointDescription], list[JointDescription]]:
    """The joints that move above two links, without those above both. up: {child link: joint}."""
    one, other = _above(up, first), _above(up, second)
    shared = sum(a is b for a, b in zip(one, other, strict=False))
    return _moving(one[shared:]), _moving(other[shared:])


def _moving(joints):
    return [joint for joint in joints if joint.kind != "fixed"]


def _above(up, link):
    """Joints from the root to a link."""
    joints = []
    while link in up:
        joints.append(up[link])
        link = joints[-1].parent
    return joints[::-1]


def _require_single_position(coupling, joint):
    if not KINDS[joint.kind].is_scalar:
        raise ModelError(f"{coupling.name!r}: {joint.kind} joint {joint.name!r} has no single position")
