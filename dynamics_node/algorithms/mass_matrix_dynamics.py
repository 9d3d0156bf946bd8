"""Forward and hybrid dynamics through the mass matrix: M qdd + h = tau, solved for what is unknown.

The route for coupled coordinates (mimic joints), where the articulated-body recursion does not hold.
"""

import numpy as np

from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.rnea import bias
from dynamics_node.spatial import matvec, solve_definite


def mass_matrix_dynamics(model, q, qd, tau, qdd=None, forward=None, f_ext=None, gravity=None):
    """Same arguments and results as `aba`; RBDA section 9.1, eqs. (9.1)-(9.3), O(nv^3)."""
    chosen = np.ones(model.nv, dtype=bool) if forward is None else np.asarray(forward, dtype=bool)
    free, driven = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    M, h = crba(model, q), bias(model, q, qd, f_ext, gravity)
    qdd_out, tau_out = np.zeros_like(tau), np.zeros_like(tau)
    if driven.size:
        qdd_out[..., driven] = qdd[..., driven]
    rest = tau[..., free] - h[..., free] - matvec(M[..., free, :], qdd_out)
    M_free = M[..., free[:, None], free]
    qdd_out[..., free] = solve_definite(M_free, rest[..., None])[..., 0]
    tau_out[..., free] = tau[..., free]
    if driven.size:
        tau_out[..., driven] = h[..., driven] + matvec(M[..., driven, :], qdd_out)
    return qdd_out, tau_out
