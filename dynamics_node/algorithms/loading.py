"""URDF or a Description -> Robot: a tree, the constraints between its joints, and their clusters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dynamics_node.algorithms.clusters import clusters
from dynamics_node.robot import ModelError, Robot
from dynamics_node.robot.constraints import Custom, LoopJoint
from dynamics_node.robot.description import Description, LoopDescription, LoopEnd
from dynamics_node.robot.errors import warned
from dynamics_node.robot.explicit import joints_apart
from dynamics_node.robot.from_description import GRAVITY, tree_from_description
from dynamics_node.robot.overrides import overridden, read_overrides, read_parameters_file
from dynamics_node.robot.safe_files import composed, plain, read_regular_file
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
        Text of a sidecar file with loops and couplings, see docs/reference/files.md.
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
        Keeps only the paths to these links; the rest is dropped with its mass.
    gravity : array_like (3,)
        Acceleration of free fall in root axes, m/s^2.
    armature : mapping, optional
        {joint: rotor inertia in kg m^2 or kg}, which replaces that of the description.

    Raises
    ------
    ModelError
        Names the invalid joint, link, loop or coupling. Also for a loop without mobility or with a changing
        rank, for a singular choice of independent joints, and without an assembled position.

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
    and of a parameters file. Also raises OSError."""
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
    """The Robot of a Description. constraints, strict, choices and errors as in `parse_robot`."""
    tree = tree_from_description(description, warnings=validate(description, strict), **choices)
    up = {joint.child: joint for joint in description.joints}
    ties = [*(_loop(tree, up, loop) for loop in description.loops), *(make(tree) for make in constraints)]
    ties = [constraint for constraint in ties if constraint is not None]
    if not ties:
        return tree
    flags = {joint.name: joint.independent for joint in description.joints}
    return replace(tree, clusters=tuple(clusters(tree, ties, flags)))


# --- constraints --------------------------------------------------------------------------------------------


def _loop(tree, up, loop):
    """The LoopJoint, or None if all its joints are fixed. up: {child link: joint} of the description."""
    (predecessor, R, p), (successor, S, s) = (_end(tree, end) for end in (loop.predecessor, loop.successor))
    if predecessor == successor and any(joints_apart(up, loop.predecessor.link, loop.successor.link)):
        return None
    ends = (predecessor, successor, (R, S), (p, s))
    return LoopJoint(loop.name, loop.kind, *ends, loop.axis, loop.second_axis, loop.length)


def _end(tree, end):
    """Body, rotation and origin of a frame on a link."""
    frame = tree.frames[end.link]
    E = transform_rotation(frame.X)
    return frame.body, product(E.T, end.rotation), product(E.T, end.origin) + transform_origin(frame.X)


# --- a sidecar file with closed loops -----------------------------------------------------------------------
#
# In the format of Gepetto's example robots:
#
#     closed_loop: [[link_a, link_b], ...]
#     type: [6d, 3d, ...]          # 6d: fixed, 3d: ball, or any type of a URDF+ loop whose axis is z
#
# The node publishes errors of this file, and its name is a parameter. So messages give positions in the file,
# never its content.

_TYPES = {"6d": "fixed", "3d": "ball"}
MAX_BYTES = 1024 * 1024


def read_loops_file(path):
    """The bytes of a sidecar file, up to just above the limit. Raises OSError."""
    return read_regular_file(path, MAX_BYTES + 1)


def read_sidecar(text) -> tuple[LoopDescription, ...]:
    """The loops of a sidecar's text. Raises ModelError with the reason."""
    if len(text) > MAX_BYTES:
        raise ModelError(f"the file of loops has more than {MAX_BYTES} bytes")
    content = plain(composed(text, "loops", ModelError))
    pairs = content.get("closed_loop") if isinstance(content, dict) else None
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise ModelError("the file of loops needs closed_loop: a list of pairs of links")
    kinds = content.get("type", ["6d"] * len(pairs))
    if not isinstance(kinds, list) or len(kinds) != len(pairs):
        raise ModelError(f"the file of loops has {len(pairs)} pairs of links, but another number of types")
    if not all(isinstance(kind, str) for kind in kinds):
        raise ModelError("the file of loops has a type that is not a string")
    return tuple(
        LoopDescription(f"closed_loop {k}", _TYPES.get(kind, kind), LoopEnd(a), LoopEnd(b))
        for k, ((a, b), kind) in enumerate(zip(pairs, kinds, strict=True), 1)
    )


def _is_pair(pair):
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(link, str) for link in pair)
