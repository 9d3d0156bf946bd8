"""The factors of loops, gears and belts (paper 1, section VII): one function per equation.

A loop joint is cut; the force T F that it transmits acts on the successor, and its opposite on the
predecessor. Notation: see loop_cut.py; kept: the directions of T that no other constraint holds already.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.variables import acceleration, joint_acceleration, torque, virtual_velocity
from dynamics_node.symbolic import matvec, transpose


def loop_wrench_blocks(loop, F, cut, kept):
    """{body: {F: block}} of what a cut loop joint, which transmits T F, adds to the wrench factors (6) of its
    ends."""
    ends = ((loop.predecessor, cut["X_p"], -1.0), (loop.successor, cut["X_s"], 1.0))
    T = cut["T"][..., kept]
    return {body: {F: sign * transpose(X) @ T} for body, X, sign in ends if body >= 0}


def loop_acceleration_factor(number, loop, cut, kept, root_acceleration):
    """T^T (X_p A_p - X_s A_s) = T^T (V_s x V_p) - (dT/dt)^T (V_p - V_s); the root's acceleration is known."""
    T = transpose(cut["T"])[..., kept, :]
    blocks, rhs = {}, cut["change"][..., kept]
    for body, X in ((loop.predecessor, T @ cut["X_p"]), (loop.successor, -T @ cut["X_s"])):
        if body >= 0:
            blocks[acceleration(body)] = X
        else:
            rhs = rhs - matvec(X, root_acceleration)
    return LinearFactor("loop acceleration", number, blocks, rhs)


def coupling_factor(number, joints, K, k):
    """K qdd = k over the joints of a gear, a belt or another constraint between coordinates. joints: {body:
    its column of K}."""
    blocks = {joint_acceleration(i): K[..., v : v + 1] for i, v in joints.items()}
    return LinearFactor("coupling", number, blocks, k)


def coupling_force_blocks(C, joints, K):
    """{body: {C: block}} of what its force adds to the torque factors (7): tau + K^T C = S^T F."""
    return {i: {C: transpose(K[..., v : v + 1])} for i, v in joints.items()}


def minimum_torque_factors(weights, joints, G):
    """Of all torques that do the same, those of least sum_j weights[j] tau_j^2: weights[j] tau_j = (G mu)_j
    with a virtual velocity mu (nv,) of the independent coordinates; least squares as exact equations.

    weights, joints: {body: what its joint's torque costs}, {body: its row of G}; G (..., nv of the tree, nv)
    as in `explicit_rates`.
    """
    mu = virtual_velocity(G.shape[-1])
    for i, weight in weights.items():
        blocks = {torque(i): np.array([[weight]]), mu: -G[..., joints[i] : joints[i] + 1, :]}
        yield LinearFactor("minimum torque", i, blocks, np.zeros(1))


def with_blocks(factor, blocks):
    """The factor with more variables."""
    return replace(factor, blocks={**factor.blocks, **blocks})
