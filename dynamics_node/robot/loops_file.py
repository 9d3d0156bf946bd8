"""A file of loops, motors and joint types for a URDF, in the format of Gepetto's example-parallel-robots.

    closed_loop: [[frame_a, frame_b], ...]   # links, or joints, which mean their child links
    type: [6d, 3d, ...]                      # 6d: fixed, 3d: ball, or a type of a URDF+ loop whose axis is z
    name_mot: [joint, ...]                   # motors: their joints are independent
    joint_name: [joint, ...]                 # joints whose type is not that of the URDF
    joint_type: [SPHERICAL, UJOINT_XY, FIXED, ...]

The node publishes errors of this file, and its name is a parameter. So messages have names from a file only
if its `closed_loop` is valid, and positions otherwise.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import NO_LIMITS, Description, Link, LoopDescription, LoopEnd
from dynamics_node.robot.safe_files import composed, plain, read_regular_file

KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type")
MAX_BYTES = 1024 * 1024
_TYPES = {"6d": "fixed", "3d": "ball"}
_KINDS = {"SPHERICAL": "ball", "FIXED": "fixed"}
_AXES = dict(zip("XYZ", np.eye(3), strict=True))


class LoopsFile(NamedTuple):
    """loops: between links or joints; motors: names of joints; joint_types: {joint: type}, in capitals."""

    loops: tuple[LoopDescription, ...]
    motors: tuple[str, ...]
    joint_types: dict[str, str]


def read_loops_file(path) -> bytes:
    """The content of a file of loops, up to just above the limit. Raises OSError."""
    return read_regular_file(path, MAX_BYTES + 1)


def parse_loops_file(text, file="the file of loops") -> LoopsFile:
    """Read the text of a file of loops. file: its name, for messages. Raises ModelError with the reason."""
    if len(text) > MAX_BYTES:
        raise ModelError(f"{file} has more than {MAX_BYTES} bytes")
    node = composed(text, "loops", ModelError)
    content = plain(node)
    pairs = content.get("closed_loop") if isinstance(content, dict) else None
    if not isinstance(pairs, list) or not all(_are_names(pair) and len(pair) == 2 for pair in pairs):
        raise ModelError(f"{file} needs closed_loop: a list of pairs of links or joints")
    _check_lists(content, [key.value for key, _ in node.value], file)
    types = content.get("type", ["6d"] * len(pairs))
    names, kinds = content.get("joint_name", []), [kind.upper() for kind in content.get("joint_type", [])]
    if len(types) != len(pairs):
        raise ModelError(f"{file} has {len(pairs)} pairs in closed_loop and {len(types)} types")
    if len(names) != len(kinds):
        raise ModelError(f"{file} has {len(names)} names in joint_name and {len(kinds)} types in joint_type")
    for name, kind in zip(names, kinds, strict=True):
        if names.count(name) > 1:
            raise ModelError(f"{file}: joint_name has {name!r} twice")
        if kind not in _KINDS and not _universal_axes(kind):
            raise ModelError(
                f"{file}: unknown joint_type {kind!r} of {name!r}; known: {', '.join(_KINDS)}, UJOINT_XY and "
                "other pairs of different axes"
            )
    loops = tuple(
        LoopDescription(f"closed_loop {k}", _TYPES.get(kind.lower(), kind.lower()), LoopEnd(a), LoopEnd(b))
        for k, ((a, b), kind) in enumerate(zip(pairs, types, strict=True), 1)
    )
    return LoopsFile(loops, tuple(content.get("name_mot", ())), dict(zip(names, kinds, strict=True)))


def _check_lists(content, keys, file):
    for key in keys:
        if key not in KEYS:
            raise ModelError(f"{file}: unknown key {key!r}; known: {', '.join(KEYS)}")
        if keys.count(key) > 1:
            raise ModelError(f"{file}: key {key!r} appears twice")
        if key != "closed_loop" and not _are_names(content[key]):
            raise ModelError(f"{file}: {key} is not a list of strings")


def _are_names(values):
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _universal_axes(kind):
    """The letters of both axes of a UJOINT; none for another type."""
    word, _, letters = kind.partition("_")
    return letters if word == "UJOINT" and len({*letters} & {*_AXES}) == len(letters) == 2 else ""


# --- its effect ---------------------------------------------------------------------------------------------


def with_loops(description: Description, file: LoopsFile) -> Description:
    """The description with what a file of loops says. Raises ModelError for an unknown joint."""
    frames = {joint.name: joint.child for joint in description.joints}
    frames |= {link.name: link.name for link in description.links}
    cut = [replace(loop, **{end: _frame(frames, loop, end) for end in _ENDS}) for loop in file.loops]
    links, joints = [*description.links], []
    for joint in description.joints:
        kind = file.joint_types.get(joint.name, "")
        if letters := _universal_axes(kind):
            middle = f"{joint.name}_{letters[0]}"
            links.append(Link(middle))
            joints += _universal(joint, middle, letters)
        elif kind:
            joints.append(replace(joint, kind=_KINDS[kind], limits=NO_LIMITS))
        else:
            joints.append(joint)
    _require(file.joint_types, {joint.name for joint in description.joints}, "joint_name")
    _require(file.motors, {joint.name for joint in joints}, "name_mot")
    joints = [replace(joint, independent=True) if joint.name in file.motors else joint for joint in joints]
    return replace(description, links=tuple(links), joints=tuple(joints), loops=(*description.loops, *cut))


_ENDS = ("predecessor", "successor")


def _frame(frames, loop, end):
    name = getattr(loop, end).link
    if name not in frames:
        raise ModelError(f"loop {loop.name!r}: {end} {name!r} is neither a link nor a joint")
    return LoopEnd(frames[name])


def _universal(joint, middle, letters):
    """Two joints about axes of the joint's frame, with a link between them that has no mass."""
    first, second = (
        replace(joint, name=f"{joint.name}_{letter}", kind="continuous", axis=_AXES[letter], limits=NO_LIMITS)
        for letter in letters
    )
    still = {"rotation": np.eye(3), "origin": np.zeros(3)}
    return replace(first, child=middle), replace(second, parent=middle, **still)


def _require(names, joints, key):
    for name in names:
        if name not in joints:
            raise ModelError(f"the file of loops: {key} has {name!r}, which is not a joint")
