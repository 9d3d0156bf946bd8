"""Whether torques determine accelerations, of trees and of robots with loops."""

import numpy as np

from dynamics_node.algorithms import determined
from dynamics_node.loops.first_positions import closed_samples
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.numeric import mechanism_mass_matrix


def require_determined(model, forward):
    """Raise ModelError, with the joints by name, when torques of the joints where `forward` (nv,) is true
    leave accelerations open at every position."""
    if not isinstance(model, Mechanism):
        determined.require_determined(model, forward)
        return
    q = closed_samples(model, determined.STATES, np.random.default_rng(22))
    chosen = np.asarray(forward, dtype=bool)
    free = np.zeros(model.nv, dtype=bool)
    M = mechanism_mass_matrix(model, q)
    regular = np.isfinite(M).all(axis=(1, 2))
    if regular.any() and chosen.any():
        free[chosen] = determined.free_coordinates(M[regular][:, chosen][:, :, chosen])
    determined.refuse_undetermined([j.name for j in model.independent_joints if free[j.v].any()])
