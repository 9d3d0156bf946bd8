"""Loops as CAD programs write them into a URDF, which has trees only -> loop joints of the Description.

Two joints with the same child: the second one closes a loop, if at zero positions both put the link at the
same place. Frames closing_NAME_1 and closing_NAME_2 without mass: the convention of onshape-to-robot.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.robot.description import Description, JointDescription, LoopDescription, LoopEnd
from dynamics_node.symbolic import product
from dynamics_node.text import listed

CLOSED = 1e-6  # m, and entries of a rotation
_KINDS = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "ball": "ball",
}


def with_cad_loops(description: Description) -> Description:
    """The Description with loops in place of second joints of links, and of pairs of closing frames. What
    cannot be decided stays, and is an error of validate.py."""
    description = _without_second_joints(description)
    loops, warnings = [], []
    masses = {link.name: link for link in description.links}
    named = {loop.name for loop in description.loops}
    for first in masses:
        name, second = first.removesuffix("_1"), first.removesuffix("_1") + "_2"
        if not first.startswith("closing_") or first == name or second not in masses or name in named:
            continue
        if any(masses[frame].mass or masses[frame].inertia.any() for frame in (first, second)):
            continue
        loops.append(LoopDescription(name, "ball", LoopEnd(first), LoopEnd(second)))
        warnings.append(
            f"frames {first!r} and {second!r} close a loop like a ball joint: for another kind, write a "
            f"<loop> named {name!r}"
        )
    return replace(
        description,
        loops=(*description.loops, *loops),
        warnings=(*description.warnings, *warnings),
    )


def _without_second_joints(description):
    first: dict[str, JointDescription] = {}
    for joint in description.joints:
        first.setdefault(joint.child, joint)
    seconds = [joint for joint in description.joints if first[joint.child] is not joint]
    poses = _poses(first) if seconds else {}
    closing = [joint for joint in seconds if joint.kind in _KINDS and _fits(joint, poses)]
    if not closing:
        return description
    loops = [
        LoopDescription(
            joint.name,
            _KINDS[joint.kind],
            LoopEnd(joint.parent, joint.rotation, joint.origin),
            LoopEnd(joint.child),
            np.asarray(joint.axis, dtype=float),
        )
        for joint in closing
    ]
    names, gone = listed(repr(joint.name) for joint in closing), set(map(id, closing))
    return replace(
        description,
        joints=tuple(joint for joint in description.joints if id(joint) not in gone),
        loops=(*description.loops, *loops),
        warnings=(*description.warnings, f"{names} close loops: their links have other parents"),
    )


def _poses(up):
    """{link: (R, p)} at zero positions in the frame of its root; links of a cycle are left out."""
    poses: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    circling: set[str] = set()
    for link in up:
        path = {link: None}
        while (name := next(reversed(path))) in up and name not in poses:
            parent = up[name].parent
            if parent in path or parent in circling:
                circling.update(path)
                break
            path[parent] = None
        else:
            for name in reversed(path):
                at = _moved(poses[up[name].parent], up[name]) if name in up else (np.eye(3), np.zeros(3))
                poses.setdefault(name, at)
    return poses


def _moved(pose, joint):
    R, p = pose
    return product(R, joint.rotation), p + product(R, joint.origin)


def _fits(joint, poses):
    """Whether a second joint puts its child where the first one does."""
    if joint.parent not in poses or joint.child not in poses:
        return False
    (R, p), (S, s) = poses[joint.child], _moved(poses[joint.parent], joint)
    return bool(np.abs(R - S).max() < CLOSED and np.abs(p - s).max() < CLOSED)
