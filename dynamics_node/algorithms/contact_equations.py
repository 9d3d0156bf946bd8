"""The equations of contacts at a state, on symbols: how their forces act on bodies, and how they accelerate.

The forces lambda (rows,) of a contact push the bodies of its sides with P lambda: the link, and a link on the
other side with the opposite wrench at the same point. The contact moves with the sum of P^T V over its sides.
Its acceleration is the sum of P^T A of the spatial accelerations: the derivative with P constant in the
bodies. For a contact that stands still, that is the derivative in any axes.

For points, P has the axes of the body, so that most entries are zero or one. `turn` takes these components to
the axes of the contact.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.errors import ContactError
from dynamics_node.robot.contacts import Contact
from dynamics_node.symbolic import matvec, rpy_rotation, skew, transform_origin, transform_rotation


class ContactEquation(NamedTuple):
    """sides: [(body, P (6, rows))]; bodies fixed to the world are left out. turn (rows, rows): from the
    components of P to the axes of the contact; None if they are the same."""

    sides: tuple
    turn: np.ndarray | None

    @property
    def size(self):
        return self.sides[0][1].shape[1]

    def outward(self, components):
        """Forces or accelerations (rows,) in the axes of the contact."""
        return components if self.turn is None else self.turn @ components

    def inward(self, components):
        """The components along P of forces or accelerations (rows,) in the axes of the contact."""
        return components if self.turn is None else self.turn.T @ components


def contact_equations(tree, X_up, contacts) -> list[ContactEquation]:
    """The ContactEquations at a position, X_up being the Transforms of the tree."""
    wanted = {tree.frame(link).body for c in contacts for link in (c.link, c.other) if link}
    poses = body_poses(tree, X_up, wanted - {-1})
    return [_equation(tree, contact, poses) for contact in contacts]


def _equation(tree, contact, poses):
    if contact.kind == "wheel":
        raise ContactError(f"contact {contact.name!r}: dynamics have no wheels yet")
    body, R, r = _placed(tree, contact)
    if contact.kind == "surface":
        sides = [(body, _wrenches(R, r)), *_other_side(tree, contact, poses, body, R, r)]
        return ContactEquation(tuple(sides), None)
    sides = [(body, _wrenches(np.eye(3), r)[:, 3:])]
    sides += [(other, P[:, 3:]) for other, P in _other_side(tree, contact, poses, body, np.eye(3), r)]
    turn = axes_of_normal(contact.normal) @ _to_other(tree, contact, poses, body)
    return ContactEquation(tuple(sides), turn)


def _placed(tree, contact: Contact):
    """The body of a contact, its axes (columns, in axes of the body) and its origin there."""
    frame = tree.frame(contact.link)
    E = transform_rotation(frame.X).T
    return frame.body, E @ rpy_rotation(contact.rpy), transform_origin(frame.X) + E @ np.array(contact.xyz)


def _wrenches(R, r):
    """(6, 6): the wrenches on a body by unit moments and forces along the columns of R at its point r."""
    zero = np.zeros((3, 3))
    return np.concatenate(
        [np.concatenate([R, skew(r) @ R], axis=1), np.concatenate([zero, R], axis=1)], axis=0
    )


def _other_side(tree, contact, poses, body, R, r):
    """[(body, P (6, 6))] of the other side, if it is a link that moves."""
    if not contact.other or tree.frame(contact.other).body < 0:
        return []
    other = tree.frame(contact.other).body
    (E, p), (E_other, p_other) = poses[body], poses[other]
    between = E_other @ E.T  # from the axes of the body to those of the other one
    place = matvec(E_other, p + E.T @ r - p_other)
    return [(other, -_wrenches(between @ R, place))]


def _to_other(tree, contact, poses, body):
    """The rotation (3, 3) from the axes of a body to those of the link on the other side."""
    E, _ = poses[body]
    if not contact.other:
        return E.T
    frame = tree.frame(contact.other)
    F, _ = poses.get(frame.body, (np.eye(3), None))
    return transform_rotation(frame.X) @ F @ E.T


def axes_of_normal(normal):
    """The rotation (3, 3) whose rows are x, y and z of the axes of a contact: z is the normal (3,); x is the
    axis of coordinates that is the least aligned with it, made orthogonal."""
    z = np.array(normal)
    x = np.eye(3)[int(np.argmin(np.round(np.abs(z), 6)))]
    x = x - (x @ z) * z
    x = x / np.sqrt((x * x).sum())
    return np.stack([x, np.cross(z, x), z])


def accelerations_along(tree, X_up, motions, rates, gravity, equations):
    """Accelerations (rows,) of the contacts along P at Motions of the bodies (algorithms/rnea.py), which have
    gravity as an acceleration. rates (nv of the tree,)."""
    velocities = outward(tree, X_up, joint_motions(tree, rates))
    above = {-1: gravity}

    def falling(i):  # gravity in the axes of body i
        if i not in above:
            above[i] = X_up.vector(i, falling(tree.parents[i]))
        return above[i]

    def acceleration(i):
        motion, v = motions[i], velocities[i]
        linear = motion.a + falling(i) - matvec(skew(v[:3]), v[3:])
        return np.concatenate([motion.wd, linear])

    return np.concatenate([sum(P.T @ acceleration(body) for body, P in e.sides) for e in equations])
