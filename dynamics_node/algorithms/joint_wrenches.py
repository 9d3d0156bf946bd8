"""What every joint transmits."""

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions, body_wrenches
from dynamics_node.algorithms.recursion import inward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.spatial import inverse_motion_transform, matvec, transpose


def joint_wrenches(model, q, qd, qdd, gravity=None):
    """Wrenches (..., nbodies, 6) that parents exert ON the bodies through their joints, in the axes of the
    link that the body is called after, at its origin, moment first; what drives the joint is part of it.
    Arguments as of `rnea`. One joint, a fixed one too, in the axes of a sensor: `carried_wrench`."""
    X_up = joint_transforms(model, q)
    wrenches = inward(model, X_up, body_wrenches(model, body_motions(model, X_up, qd, qdd, gravity)))
    back = [transpose(inverse_motion_transform(model.frames[body.name].X)) for body in model.bodies]
    own = [matvec(X, wrenches[..., i, :]) for i, X in enumerate(back)]
    return np.stack(own, axis=-2) if own else wrenches
