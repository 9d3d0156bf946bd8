"""Operational-space inertia of several links: Lambda^-1 = J M^-1 J^T (Khatib 1987)."""

import numpy as np

from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.jacobian import frame_jacobian
from dynamics_node.symbolic import inverse_congruence


def operational_space_inertia_inverse(model, q, links, reference="world_aligned"):
    """Lambda^-1 (..., 6 k, 6 k) and J (..., 6 k, nv) of k links, angular rows first in each link.

    Lambda^-1 exists everywhere; its inverse only where the links can move freely (see `invert`).
    """
    J = np.concatenate([frame_jacobian(model, q, link, reference) for link in links], axis=-2)
    return inverse_congruence(crba(model, q), J), J


MAX_CONDITION = 1e12


def invert(inertia_inverse):
    """Lambda (n, n), or None where Lambda^-1 is singular, and the condition number of Lambda^-1.

    The inverse is given only below a condition number of 1e12.
    """
    condition = float(np.linalg.cond(inertia_inverse)) if inertia_inverse.size else np.inf
    if not condition < MAX_CONDITION:
        return None, condition
    return np.linalg.inv(inertia_inverse), condition
