"""The equations of contacts at a state, on symbols: how their forces act on bodies, and how they accelerate.

The forces lambda (rows,) of a contact push its link with the wrench P lambda, and a link on the other side
with the opposite wrench at the same point. The contact moves with the velocity P^T V of its link relative to
the other side, V (6,) in axes of the link. Its acceleration is the derivative of that. P is constant in the
link at points and surfaces, so points of one link never contradict each other. For a contact that stands
still, the derivative is the same in any axes.

For points, P has the axes of the link, so that most entries are zero or one. `turn` takes these components to
the axes of the contact. Wheels: see algorithms/wheels.py.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.wheels import Wheel
from dynamics_node.robot.contacts import Contact
from dynamics_node.symbolic import (
    cross_motion,
    matvec,
    motion_transform,
    rpy_rotation,
    skew,
    transform_origin,
    transform_rotation,
)


class ContactEquation(NamedTuple):
    """sides: [(body, P (6, rows))]; bodies fixed to the world are left out. turn (rows, rows): from the
    components of P to the axes of the contact; None if they are the same.

    pair: the body of the link and that on the other side, -1 for the world, and X (6, 6) from the second to
    the first. P (6, rows): that of the link. wheel: its Wheel, and the normal in axes of the link; else None.
    """

    sides: tuple
    turn: np.ndarray | None
    pair: tuple
    P: np.ndarray
    wheel: tuple | None = None

    @property
    def size(self):
        return self.P.shape[1]

    def leaning(self):
        """`Wheel.leaning` of a wheel; 0 otherwise."""
        return self.wheel[0].leaning(self.wheel[1]) if self.wheel else 0.0

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
    body, R, r = placed(tree, contact)
    other = tree.frame(contact.other).body if contact.other else -1
    pair = body, other, _between(poses, body, other)
    to_other, turn, wheel = _to_other(tree, contact, poses, body), None, None
    if contact.kind == "surface":
        P = wrenches(R, r)
    elif contact.kind == "point":
        P, turn = wrenches(np.eye(3), r)[:, 3:], axes_of_normal(contact.normal) @ to_other
    else:
        shape = Wheel(tuple(r), tuple(R @ np.array(contact.axis)), contact.radius, contact.roller)
        wheel = shape, to_other.T @ np.array(contact.normal)
        P = shape.directions(wheel[1])
    sides = [(body, P)] if body >= 0 else []
    sides += [(other, -pair[2].T @ P)] if other >= 0 else []
    return ContactEquation(tuple(sides), turn, pair, P, wheel)


def placed(tree, contact: Contact):
    """The body of a contact, its axes (columns, in axes of the body) and its origin there."""
    frame = tree.frame(contact.link)
    E = transform_rotation(frame.X).T
    return frame.body, E @ rpy_rotation(contact.rpy), transform_origin(frame.X) + E @ np.array(contact.xyz)


def wrenches(R, r):
    """(6, 6): the wrenches on a body by unit moments and forces along the columns of R at its point r."""
    zero = np.zeros((3, 3))
    return np.concatenate(
        [np.concatenate([R, skew(r) @ R], axis=1), np.concatenate([zero, R], axis=1)], axis=0
    )


def _between(poses, body, other):
    """The transform (6, 6) of motions from the body `other` to another one; zero if it is the world."""
    if other < 0:
        return np.zeros((6, 6))
    (E, p), (E_other, p_other) = poses[body], poses[other]
    return motion_transform(E @ E_other.T, matvec(E_other, p - p_other))


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

    along = [sum(P.T @ acceleration(body) for body, P in e.sides) for e in equations]
    return np.concatenate(along) + drifts(velocities, equations)


def drifts(velocities, equations):
    """What the accelerations (rows,) of contacts have besides P^T A of the spatial accelerations of their
    sides, at velocities (nbodies, 6) of the bodies: axes of two moving links turn relative to each other, and
    the lowest point of a wheel moves on its rim."""
    return np.concatenate([_drift(velocities, equation) for equation in equations])


def _drift(velocities, equation):
    body, other, X = equation.pair
    V = velocities[body] if body >= 0 else np.zeros(6)
    V_other = X @ velocities[other] if other >= 0 else np.zeros(6)
    drift = np.zeros(equation.size)
    if body >= 0 and other >= 0:
        drift = equation.P.T @ cross_motion(V, V_other)
    if equation.wheel:
        shape, normal = equation.wheel
        relative = V - V_other
        turning = -matvec(skew(relative[:3]), normal)
        drift = drift + shape.change(normal, turning).T @ relative
    return drift
