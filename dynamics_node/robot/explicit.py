"""Explicit joints: their position is a linear function of others, given by a mimic, a gear or a belt.

Each of these is an equation between positions of joints. One joint after the other is eliminated; the
remaining ones are in q.
"""

from typing import NamedTuple

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.validate import HUGE, TINY, require_finite

ROUNDING = 1e-12  # of the largest of the terms that make a weight: smaller weights cancel


class Explicit(NamedTuple):
    """position = sum of weights[joint] times the position of the joint, + offset (rad or m)."""

    weights: dict[str, float]
    offset: float


class _Equation(NamedTuple):
    """sum of weights[joint] times the position of the joint = offset. candidates: the first one with a
    nonzero weight becomes explicit."""

    name: str
    weights: dict[str, float]
    offset: float
    candidates: tuple[str, ...]


def explicit_joints(description: Description) -> dict[str, Explicit]:
    """{explicit joint: its function of joints in q}. Raises ModelError if mimics, gears and belts leave a
    joint no motion, or contradict each other."""
    explicit_of: dict[str, Explicit] = {}
    followers: dict[str, set[str]] = {}  # for every joint, the explicit ones that follow it
    for equation in (*_mimics(description), *_couplings(description), *_linear(description)):
        weights, offset = _substituted(equation.weights, equation.offset, explicit_of)
        name = next((name for name in equation.candidates if name in weights), None)
        if name is None:
            if abs(offset) > ROUNDING:
                raise ModelError(f"{equation.name!r} contradicts other mimics or couplings by {offset:.3g}")
            continue
        pivot = weights.pop(name)
        if not weights:
            raise ModelError(f"{equation.name!r}: joint {name!r} cannot move (mobility 0)")
        factors = {other: -weight / pivot for other, weight in weights.items()}
        solved = {name: Explicit(factors, offset / pivot)}
        changed = {other: _resolved(explicit_of[other], solved) for other in followers.pop(name, ())} | solved
        for other, explicit in changed.items():
            _require_ordinary(other, explicit)
            for master in explicit.weights:
                followers.setdefault(master, set()).add(other)
        explicit_of |= changed
    return explicit_of


def actuator_functions(description: Description, explicit: dict[str, Explicit]) -> dict[str, Explicit]:
    """{actuator: its function of joints in q}, without those that these do not move."""
    functions = (
        (actuator.name, _resolved(Explicit(actuator.weights, actuator.offset), explicit))
        for actuator in description.actuators
    )
    return {name: function for name, function in functions if function.weights}


def _require_ordinary(name, explicit):
    """Check that the factors and the offset neither overflow nor vanish, as those of long chains may."""
    for master, weight in explicit.weights.items():
        if not TINY <= abs(weight) < HUGE:
            raise ModelError(
                f"joint {name!r} follows {master!r} through mimics or couplings by a factor of {weight:g}, "
                f"which is not between {TINY:g} and {HUGE:g}"
            )
    require_finite(f"joint {name!r}", "the offset of its mimics or couplings", explicit.offset)


def _resolved(explicit, others):
    weights, offset = _substituted(explicit.weights, -explicit.offset, others)
    return Explicit(weights, -offset)


def _substituted(weights, offset, explicit):
    """Weights and offset of an equation after substituting the explicit joints."""
    total: dict[str, float] = {}
    largest: dict[str, float] = {}
    for name, weight in weights.items():
        function = explicit.get(name, Explicit({name: 1.0}, 0.0))
        offset = offset - weight * function.offset
        for other, part in function.weights.items():
            total[other] = total.get(other, 0.0) + weight * part
            largest[other] = max(largest.get(other, 0.0), abs(weight * part))
    return {name: weight for name, weight in total.items() if abs(weight) > ROUNDING * largest[name]}, offset


# --- equations ----------------------------------------------------------------------------------------------


def _mimics(description):
    """Equations of joints that mimic others. The mimic joint becomes explicit, however others are marked."""
    joints = {joint.name: joint for joint in description.joints}
    for joint in _masters_first(joints):
        master = joint.mimic.joint
        if master not in joints:
            raise ModelError(f"joint {joint.name!r} mimics {master!r}, which is cut off")
        weights = {joint.name: 1.0, master: -joint.mimic.multiplier}
        yield _Equation(joint.name, weights, joint.mimic.offset, (joint.name,))


def _masters_first(joints):
    """The mimic joints, each after its master."""
    done: set[str] = set()
    for joint in joints.values():
        chain = []
        while joint is not None and joint.name not in done and joint.mimic is not None:
            done.add(joint.name)
            chain.append(joint)
            joint = joints.get(joint.mimic.joint)
        yield from (joint for joint in reversed(chain) if joint.kind != "fixed")


def _couplings(description):
    """Equations of gears and belts. A joint marked as dependent in the file becomes explicit; otherwise the
    one with the smallest subtree, usually a rotor, and of equal ones the last."""
    up = {joint.child: joint for joint in description.joints}
    places = {joint.name: k for k, joint in enumerate(description.joints)}
    links_above = _subtree_sizes(up) if description.couplings else {}
    for coupling in description.couplings:
        sides = joints_apart(up, coupling.predecessor, coupling.successor)
        weights: dict[str, float] = {}
        for joints, factor in zip(sides, (coupling.ratio, -1.0), strict=True):
            for joint in joints:
                _require_single_position(coupling, joint)
                weights[joint.name] = factor
        if not weights:
            raise ModelError(f"coupling {coupling.name!r}: no joint moves its links against each other")
        order = sorted(
            (*sides[0], *sides[1]),
            key=lambda joint: (joint.independent is not False, links_above[joint.child], -places[joint.name]),
        )
        yield _Equation(coupling.name, weights, 0.0, tuple(joint.name for joint in order))


def _linear(description):
    """Equations of any joints; of these the last one in the file becomes explicit."""
    places = {joint.name: k for k, joint in enumerate(description.joints)}
    for coupling in description.linear_couplings:
        order = sorted(coupling.weights, key=places.__getitem__, reverse=True)
        yield _Equation(coupling.name, coupling.weights, coupling.offset, tuple(order))


def _subtree_sizes(up):
    """{link: number of links of its subtree, itself included}. up: {child link: joint}."""
    counts: dict[str, int] = dict.fromkeys(up, 0)
    for link in up:
        for joint in joints_above(up, link):
            counts[joint.child] += 1
    return counts


def joints_apart(up, first, second) -> tuple[list[JointDescription], list[JointDescription]]:
    """The moving joints above two links, without those above both. up: {child link: joint}."""
    one, other = joints_above(up, first), joints_above(up, second)
    shared = sum(a is b for a, b in zip(one, other, strict=False))
    return _moving(one[shared:]), _moving(other[shared:])


def _moving(joints):
    return [joint for joint in joints if joint.kind != "fixed"]


def joints_above(up, link):
    """Joints from the root to a link."""
    joints = []
    while link in up:
        joints.append(up[link])
        link = joints[-1].parent
    return joints[::-1]


def _require_single_position(coupling, joint):
    if not KINDS[joint.kind].is_scalar:
        raise ModelError(f"{coupling.name!r}: {joint.kind} joint {joint.name!r} has no single position")
