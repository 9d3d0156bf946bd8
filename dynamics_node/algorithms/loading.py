"""URDF or a Description -> Robot: a tree, the constraints between its joints, and their clusters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dynamics_node.algorithms.clusters import clusters
from dynamics_node.algorithms.constraint_equations import between
from dynamics_node.algorithms.loops_file import read_loops_file, read_sidecar
from dynamics_node.robot import ModelError, Robot
from dynamics_node.robot.constraints import Custom, Linear, LoopJoint
from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.errors import warned
from dynamics_node.robot.from_description import GRAVITY, resolve_mimic, tree_from_description
from dynamics_node.robot.overrides import overridden, read_overrides, read_parameters_file
from dynamics_node.robot.urdf import parse_urdf
from dynamics_node.robot.validate import validate
from dynamics_node.symbolic import product, transform_origin, transform_rotation


def parse_robot(
    text: str | bytes,
    *,
    loops: str | None = None,
    parameters: str | None = None,
    constraints: Sequence[Callable[[Robot], Custom]] = (),
    strict: bool = False,
    floating_base: bool = False,
    joints: Iterable[str] | None = None,
    positions: Mapping[str, float] | None = None,
    root: str | None = None,
    tips: Iterable[str] | None = None,
    gravity=GRAVITY,
    armature: Mapping[str, float] | None = None,
) -> Robot:
    """The Robot of a URDF or URDF+ text.

    Parameters
    ----------
    text : str or bytes
    loops : str, optional
        Text of a sidecar file with loops and couplings, see docs/loops.md.
    parameters : str, optional
        Text of a parameters file, whose values replace those of the description.
    constraints : sequence of callables
        Functions (tree) -> Custom, for constraints that no text can describe.
    strict : bool
        Implausible inertias raise ModelError instead of a warning.
    floating_base : bool
        Adds a floating joint above the root link.
    joints : iterable of str, optional
        The joints that move, with those that mimic them. The others stay at `positions`.
    positions : mapping, optional
        {joint: position in rad or m} of joints that do not move; 0 where absent.
    root : str, optional
        Keeps only the links from this one on.
    tips : iterable of str, optional
        Keeps only the paths to these links; the rest is cut off with its mass.
    gravity : array_like (3,)
        Acceleration of free fall in root axes, m/s^2.
    armature : mapping, optional
        {joint: rotor inertia in kg m^2 or kg}, which replaces that of the description.

    Raises
    ------
    ModelError
        Names the joint, link, loop or coupling that is wrong: also a loop without mobility, one whose rank
        changes, a singular choice of independent joints, or no assembled position.

    Warns
    -----
    ModelWarning
        The Robot has `warnings`.

    Examples
    --------
    >>> import dynamics_node as dn
    >>> arm = dn.parse_robot("<robot name='r'><link name='a'/></robot>")
    >>> arm.nv
    0
    """
    choices = _Choices(floating_base, joints, positions, root, tips, gravity, armature)
    return warned(_parsed(text, loops, parameters, constraints, strict, choices))


def load_robot(
    path: str | Path,
    *,
    loops_file: str | Path | None = None,
    parameters_file: str | Path | None = None,
    constraints: Sequence[Callable[[Robot], Custom]] = (),
    strict: bool = False,
    floating_base: bool = False,
    joints: Iterable[str] | None = None,
    positions: Mapping[str, float] | None = None,
    root: str | None = None,
    tips: Iterable[str] | None = None,
    gravity=GRAVITY,
    armature: Mapping[str, float] | None = None,
) -> Robot:
    """The Robot of a URDF or URDF+ file: `parse_robot` of its content, and of the contents of a sidecar file
    and of a parameters file. Raises OSError besides."""
    loops = None if loops_file is None else read_loops_file(loops_file)
    parameters = None if parameters_file is None else read_parameters_file(parameters_file)
    choices = _Choices(floating_base, joints, positions, root, tips, gravity, armature)
    return warned(_parsed(Path(path).read_bytes(), loops, parameters, constraints, strict, choices))


class _Choices(NamedTuple):
    """Arguments of `tree_from_description`."""

    floating_base: bool
    joints: Iterable[str] | None
    positions: Mapping[str, float] | None
    root: str | None
    tips: Iterable[str] | None
    gravity: Sequence[float]
    armature: Mapping[str, float] | None


def _parsed(text, loops, parameters, constraints, strict, choices):
    description = parse_urdf(text)
    if parameters is not None:
        validate(description)  # names are unique before overrides refer to them
        description = overridden(description, read_overrides(parameters))
    if loops is not None:
        description = replace(description, loops=(*description.loops, *read_sidecar(loops)))
    return robot_from_description(description, constraints, strict, **choices._asdict())


def robot_from_description(description: Description, constraints=(), strict=False, **choices) -> Robot:
    """The Robot of a Description. constraints, strict, choices and errors as of `parse_robot`."""
    warnings = validate(description, strict)
    if not (description.loops or description.couplings or constraints):
        return tree_from_description(description, warnings=warnings, **choices)
    joints = resolve_mimic(description.joints)
    bare = tuple(replace(joint, mimic=None) for joint in joints)
    tree = tree_from_description(
        replace(description, joints=bare, loops=(), couplings=()), warnings=warnings, **choices
    )
    fixed = _Fixed({joint.child: joint for joint in bare}, choices.get("positions") or {})
    made = [
        *(_mimic(tree, joint) for joint in joints if joint.mimic is not None),
        *(_coupling(tree, fixed, coupling) for coupling in description.couplings),
        *(_loop(tree, fixed, loop) for loop in description.loops),
        *(make(tree) for make in constraints),
    ]
    flags = {joint.name: joint.independent for joint in joints}
    ties = [constraint for constraint in made if constraint is not None]
    return replace(tree, clusters=tuple(clusters(tree, ties, flags)))


# --- constraints --------------------------------------------------------------------------------------------


class _Fixed(NamedTuple):
    """What is known of joints that do not move: all joints by their child links, and positions by their
    names."""

    up: dict[str, JointDescription]
    positions: dict[str, float]

    def above(self, link):
        """Joints from the root to a link."""
        joints: list[JointDescription] = []
        while link in self.up:
            joints.insert(0, self.up[link])
            link = joints[0].parent
        return joints

    def apart(self, first, second):
        """The joints above two links, without those above both."""
        one, other = self.above(first), self.above(second)
        shared = sum(a is b for a, b in zip(one, other, strict=False))
        return one[shared:], other[shared:]

    def rigid(self, first, second):
        """Whether joints lead from one link to the other, though none of them moves."""
        return any(joint.kind != "fixed" for side in self.apart(first, second) for joint in side)


def _mimic(tree, joint):
    """None where both joints are fixed."""
    body = {body.joint.name: i for i, body in enumerate(tree.bodies)}
    follower, master = body.get(joint.name), body.get(joint.mimic.joint)
    if follower is None and master is None:
        return None
    if follower is None or master is None:
        raise ModelError(f"joint {joint.name!r} mimics {joint.mimic.joint!r}, and one of them does not move")
    weights = {_v(tree, follower): 1.0, _v(tree, master): -joint.mimic.multiplier}
    members = frozenset(between(tree, follower, master) | {follower, master})
    return Linear(joint.name, weights, joint.mimic.offset, members)


def _coupling(tree, fixed, coupling):
    """None where all its joints are fixed."""
    v_of = {body.joint.name: body.joint.v.start for body in tree.bodies}
    weights, offset = dict[int, float](), 0.0
    ends = (coupling.predecessor, coupling.successor)
    for joints, factor in zip(fixed.apart(*ends), (coupling.ratio, -1.0), strict=True):
        for joint in joints:
            if joint.name in v_of:
                v = v_of[joint.name]
                weights[v] = weights.get(v, 0.0) + factor
            else:
                offset -= factor * fixed.positions.get(joint.name, 0.0)
    if not weights:
        if fixed.rigid(*ends):
            return None
        raise ModelError(f"coupling {coupling.name!r}: no joint moves its links against each other")
    bodies = between(tree, *(tree.frames[link].body for link in ends))
    return Linear(coupling.name, weights, offset, frozenset(bodies))


def _loop(tree, fixed, loop):
    """None where all its joints are fixed."""
    (predecessor, R, p), (successor, S, s) = (_end(tree, end) for end in (loop.predecessor, loop.successor))
    if predecessor == successor and fixed.rigid(loop.predecessor.link, loop.successor.link):
        return None
    ends = (predecessor, successor, (R, S), (p, s))
    return LoopJoint(loop.name, loop.kind, *ends, loop.axis, loop.second_axis, loop.length)


def _end(tree, end):
    """Body, rotation and origin of a frame that is given on a link."""
    frame = tree.frames[end.link]
    E = transform_rotation(frame.X)
    return frame.body, product(E.T, end.rotation), product(E.T, end.origin) + transform_origin(frame.X)


def _v(tree, body):
    return tree.bodies[body].joint.v.start
