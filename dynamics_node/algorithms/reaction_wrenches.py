"""The wrenches that joints transmit."""

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions, body_wrenches
from dynamics_node.algorithms.recursion import inward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import inverse_motion_transform, matvec, transpose


def reaction_wrenches(model, q, qd, qdd, gravity=None, f_ext=0.0):
    """Wrenches (..., nbodies, 6) that parents exert ON the bodies through their joints, in the axes of the
    link that the body is called after, at its origin, moment first; what drives the joint is part of it.
    f_ext (..., nbodies, 6): of the environment ON the bodies in their axes at their origins; the other
    arguments as of `rnea`. One joint, a fixed one too, in the axes of a sensor: `sensor_wrench`."""
    X_up = joint_transforms(model, q)
    own = body_wrenches(model, body_motions(model, X_up, qd, qdd, gravity))
    wrenches = inward(model, X_up, own - f_ext)
    back = [transpose(inverse_motion_transform(model.frames[body.name].X)) for body in model.bodies]
    found = [matvec(X, wrenches[..., i, :]) for i, X in enumerate(back)]
    return np.stack(found, axis=-2) if found else wrenches
