"""The robot with fewer inertial parameters: base parameters.

Mass that a joint does not move may be counted with the parent just as well: of a turning body the mass, the
first moment along the axis and the second one, of a sliding body all second moments.
What reaches the root is gone. Khalil and Dombre: Modeling, identification and control
of robots, 2002, section 9.4.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.robot.robot import Robot
from dynamics_node.symbolic import (
    carried_inertia,
    inertia_of_pseudo,
    pseudo_inertia,
    transform_origin,
    transform_rotation,
)


def regroup(model: Robot) -> Robot:
    """The Robot with base parameters, for one from `reframe` (z is the axis of every joint).

    Torques, accelerations, mass matrix and bias stay the same. The inertia of one body alone, and the
    wrench at its joint across the axis, lose their meaning.
    """
    J = list(pseudo_inertia(model.inertias))
    for i in reversed(range(model.nbodies)):
        body = model.bodies[i]
        still = _only(J[i], _unmoved(body.joint))
        J[i] = J[i] - still
        if body.parent >= 0:
            T = _to_parent(body.X_tree)
            J[body.parent] = J[body.parent] + carried_inertia(T.T, still)
    inertias = inertia_of_pseudo(np.array(J).reshape(-1, 4, 4))
    bodies = [replace(body, inertia=own) for body, own in zip(model.bodies, inertias, strict=True)]
    return replace(model, bodies=tuple(bodies))


def regrouped_away(model: Robot):
    """(nbodies, 4, 4) bool: entries of the pseudo-inertias that `regroup` makes zero."""
    gone = np.zeros((model.nbodies, 4, 4), dtype=bool)
    for i, body in enumerate(model.bodies):
        rows = _unmoved(body.joint)
        gone[i][np.ix_(rows, rows)] = True
    return gone


def _unmoved(joint):
    return joint.type.still_points(joint.axis)


def _only(J, rows):
    kept = np.zeros_like(J)
    at = np.ix_(rows, rows)
    kept[at] = J[at]
    return kept


def _to_parent(X):
    """Homogeneous transform of points from the body to the parent of motion transform X."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = transform_rotation(X).T, transform_origin(X)
    return T
