"""The smallest contact forces and torques where no limit counts: one linear system in a Program.

The QP of algorithms/contact_qp.py without its limits has the equations of fixed torques alone. Its solution
is that of the QP if it is within all limits, which the Program checks. Most states of a robot that stands or
walks are such; the others are left to a solver.

Unknown are the rows s of contact forces: the cheapest variables x with spread @ x = s are share @ s. The
matrix of their costs has a block for each limb, and fixed torques couple them.
"""

import numpy as np

from dynamics_node.algorithms.contact_dynamics import damped
from dynamics_node.algorithms.contact_qp import ForceVariables, program_of_torques
from dynamics_node.robot import Robot
from dynamics_node.symbolic import Program, half_solved, inverse_definite, product, symmetric

MISSED = 1e-9  # of the fixed torques, relative to all
UNBALANCED = 1e-9  # gradient, relative to the largest force and cost


def unlimited_forces_program(
    robot: Robot,
    variables: ForceVariables,
    used,
    driven,
    force_weights,
    torque_weights,
    efforts,
    wrenches=False,
    parameters=(),
) -> Program:
    """The Program of the solution; health exceeds zero beyond a limit, and where the solution misses the
    conditions of optimality.

    Arguments as of `contact_qp_program`. used: x (n,), tau (nv,) -> arrays (limits,) of ForceLimits: what is
    allowed, and the square of what is used. Returns tau (nv,), contact_forces (rows,), allowed and use.
    """
    weights, limited = np.where(driven, torque_weights, 0.0), np.flatnonzero(driven & np.isfinite(efforts))
    rows = np.flatnonzero(variables.spread.any(axis=1))
    weighted = variables.spread[rows] / variables.costs(force_weights)
    stiffness = inverse_definite(product(weighted, variables.spread[rows].T))
    share = product(weighted.T, stiffness)

    def function(tau0, A):
        A = A[:, rows]
        scaled, fixed = A * weights[:, None], A[~driven]
        H, f = scaled.T @ A + stiffness, -(tau0 @ scaled)
        s, y = _minimum(H, f, fixed, tau0[~driven])
        x, tau = share @ s, tau0 - A @ s
        forces = np.zeros(len(variables.spread), dtype=object)
        forces[rows] = s
        allowed, use = used(x, tau)
        results = {"tau": tau, "contact_forces": forces, "allowed": allowed, "use": use}
        missed, gradient = tau[~driven] * (1.0 / MISSED), (H @ s + f + y @ fixed) * (1.0 / UNBALANCED)
        squares, trace = 1.0 + tau0 @ tau0, np.trace(H)
        normals, tangents = variables.friction * x[variables.normals], x[variables.tangents]
        checks = [
            -x[: variables.nnormals],
            (tangents * tangents).sum(axis=1) - normals * normals,
            variables.wedges @ x,
            tau[limited] * tau[limited] - efforts[limited] ** 2,
            [missed @ missed - squares],
            [gradient @ gradient - trace * trace * squares],
        ]
        return results, np.concatenate(checks)

    count = variables.nnormals + len(variables.normals) + len(variables.wedges) + len(limited) + 2
    return program_of_torques(robot, variables, function, count, wrenches, parameters)


def _minimum(H, f, E, e):
    """x (n,) with the least x^T H x / 2 + f^T x among those of E x = e, and the multipliers y of E x. Of
    dependent equations, those that do not contradict others count."""
    L, pivots, half = half_solved(H, np.concatenate([E.T, f[:, None]], axis=1))
    inverse = np.array([1.0 / pivot for pivot in pivots], dtype=object)
    products = symmetric(half.T @ (inverse[:, None] * half))
    A = products[:-1, :-1]
    y = -damped(A, np.trace(A)).shortest(e + products[:-1, -1])
    x = -inverse * (half[:, -1] + half[:, :-1] @ y)
    for k in range(len(x)):
        for i in range(k):
            x[k] = x[k] - L[k, i] * x[i]
    return x, y
