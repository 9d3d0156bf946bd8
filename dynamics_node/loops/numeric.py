"""Quantities of a Mechanism at closed positions as numbers, by NumPy: those of the tree, projected with G."""

import numpy as np

from dynamics_node.algorithms import carried_wrench, crba, link_jacobian, rnea
from dynamics_node.loops.spanning import closure_matrix
from dynamics_node.spatial import inverse_congruence, matvec, transpose


def mechanism_mass_matrix(mechanism, q):
    """G^T M G (..., nv, nv) at closed q (..., nq)."""
    G = closure_matrix(mechanism, q)
    return transpose(G) @ crba(mechanism.tree, q) @ G


def mechanism_bias(mechanism, q, qd, gravity=None):
    """h (..., nv) of G^T M G qdd + h = tau at closed q (..., nq), qd (..., nv); gravity as in `rnea`."""
    _, rates, accelerations = mechanism.spanning(q, qd, np.zeros_like(qd))
    torques = rnea(mechanism.tree, q, rates, accelerations, gravity=gravity)
    return matvec(transpose(closure_matrix(mechanism, q)), torques)


def mechanism_carried_wrench(mechanism, q, qd, qdd, gravity=None, **sensor):
    """Wrench (..., 6) at a sensor, as `carried_wrench`, at closed q (..., nq), qd, qdd (..., nv)."""
    q, rates, accelerations = mechanism.spanning(q, qd, qdd)
    return carried_wrench(mechanism.tree, q, rates, accelerations, gravity=gravity, **sensor)


def mechanism_jacobian(mechanism, q, link, reference="world_aligned"):
    """J (..., 6, nv) of a link, as `link_jacobian`, at closed q (..., nq)."""
    return link_jacobian(mechanism.tree, q, link, reference) @ closure_matrix(mechanism, q)


def mechanism_operational_space_inertia(mechanism, q, links, reference="world_aligned"):
    """Lambda^-1 (..., 6 k, 6 k) and J (..., 6 k, nv) of k links, as `operational_space_inertia`."""
    J = np.concatenate([mechanism_jacobian(mechanism, q, link, reference) for link in links], axis=-2)
    return inverse_congruence(mechanism_mass_matrix(mechanism, q), J), J
