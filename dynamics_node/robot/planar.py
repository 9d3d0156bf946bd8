"""A planar joint is two slides and a turn, with massless links in between."""

from dataclasses import replace

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import JointDescription, Link
from dynamics_node.symbolic import length

PARTS = (("x", "prismatic"), ("y", "prismatic"), ("theta", "continuous"))


def expand_planar(links, joints):
    """(links, joints) with every planar joint 'j' replaced by 'j.x', 'j.y' and 'j.theta': q = (x, y, theta)
    in the parent's plane, m and rad. The joint's axis is the normal. x and y are those of the joint frame
    after the shortest rotation that takes its z to the normal. Raises ModelError for a planar joint that
    mimics."""
    all_links, all_joints = list(links), []
    for joint in joints:
        if joint.kind == "planar":
            parts, between = _parts(joint)
            all_joints += parts
            all_links += between
        else:
            all_joints.append(joint)
    return tuple(all_links), tuple(all_joints)


def _parts(joint: JointDescription):
    if joint.mimic is not None:
        raise ModelError(f"joint {joint.name!r}: a planar joint cannot mimic or be mimicked")
    names = [f"{joint.name}.{part}" for part, _ in PARTS]
    between = [Link(name) for name in names[:2]]
    ends = [joint.parent, *(link.name for link in between), joint.child]
    first = replace(joint, damping=0.0, friction=0.0, armature=0.0)
    later = replace(first, rotation=np.eye(3), origin=np.zeros(3))
    rows = zip((first, later, later), names, PARTS, _directions(joint.axis), ends, ends[1:], strict=False)
    parts = [
        replace(start, name=name, kind=kind, axis=axis, parent=parent, child=child)
        for start, name, (_, kind), axis, parent, child in rows
    ]
    return parts, between


def _directions(normal):
    """x, y and the normal (3,); three times the normal if it is invalid, which `validate` reports."""
    size = length(normal)
    if not 0 < size < np.inf:
        return normal, normal, normal
    a, b, c = normal / size
    if c < -1 + 1e-12:
        return np.array([1.0, 0, 0]), np.array([0, -1.0, 0]), normal
    return (  # Rodrigues' rotation about z x normal
        np.array([1 - a * a / (1 + c), -a * b / (1 + c), -a]),
        np.array([-a * b / (1 + c), 1 - b * b / (1 + c), -b]),
        normal,
    )
