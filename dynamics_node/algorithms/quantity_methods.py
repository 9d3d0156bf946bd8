"""Methods for the quantities of a robot over states: results of the tree at the rates of all its joints,
projected to the independent ones.

A method is a function (robot, rates, q, *arrays, **options) -> results. rates: `rates_at` of the state; the
arrays are those that the quantity reads after q and qd.
"""

import numpy as np

from dynamics_node.algorithms.aba import inward
from dynamics_node.algorithms.crba import coriolis_matrix as tree_coriolis_matrix
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.energy_and_momentum import generalized_momentum as tree_momentum
from dynamics_node.algorithms.force_propagation import apparent_matrix, forces_at_joints
from dynamics_node.algorithms.frame_kinematics import (
    frame_jacobian,
    frame_jacobian_change,
    frame_kinematics,
    frame_transform,
    motion_to_reference,
    reference_named,
)
from dynamics_node.algorithms.loop_forces import loop_wrenches
from dynamics_node.algorithms.regressors import momentum_regressor as tree_momentum_regressor
from dynamics_node.algorithms.rnea import rnea
from dynamics_node.algorithms.wrenches import reaction_wrenches as tree_reaction_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    inverse_congruence,
    solve_definite,
    symmetric,
    transpose,
)


def of_the_tree(function, reads, rows=(), columns=()):
    """The method of a function (tree, *arrays, **options) -> results, for the arrays `reads` by name.

    rows, columns: numbers of the results whose rows or columns belong to the joints of the tree; torques have
    rows.
    """

    def method(robot, rates, q, qdd=None, gravity=None, **options):
        given = {"q": q, "qd": rates.qd, "gravity": gravity}
        if qdd is not None:
            given["qdd"] = rates.accelerations(qdd)
        results = list(function(robot.tree, *(given[name] for name in reads), **options))
        for k in rows:
            results[k] = rates.rows(results[k])
        for k in columns:
            results[k] = rates.columns(results[k])
        return tuple(results)

    return method


def mass_matrix(robot, rates, q):
    """M (..., nv, nv), armature included."""
    return (rates.congruence(crba(robot.tree, q)),)


def inverse_mass_matrix(robot, rates, q):
    """M^-1 (..., nv, nv)."""
    (M,) = mass_matrix(robot, rates, q)
    inverse = inverse_congruence(M, np.eye(robot.nv))
    return (inverse if inverse.dtype == object else 0.5 * (inverse + transpose(inverse)),)


def inverse_dynamics(robot, rates, q, qdd, f_ext=None, gravity=None):
    """tau (..., nv) that produces qdd (..., nv). Eqs. (31), (35) of paper 3."""
    return rates.independent(rnea(robot.tree, q, rates.qd, rates.accelerations(qdd), f_ext, gravity))


def nonlinear_effects(robot, rates, q, gravity=None, f_ext=None):
    """h (..., nv) of M qdd + h = tau: gravity, Coriolis and centrifugal terms, external wrenches."""
    return (inverse_dynamics(robot, rates, q, np.zeros(robot.nv), f_ext, gravity),)


def coriolis_torque(robot, rates, q):
    """`nonlinear_effects` without gravity and external wrenches."""
    return nonlinear_effects(robot, rates, q, np.zeros(3))


def gravity_torque(robot, rates, q, gravity):
    """Torques (..., nv) at rest."""
    still = np.zeros(robot.tree.nv)
    return (rates.independent(rnea(robot.tree, q, still, still, gravity=gravity)),)


def coriolis_matrix(robot, rates, q):
    """C (..., nv, nv) with C qd the Coriolis and centrifugal torques, and dM/dt - 2 C skew-symmetric: as is
    G^T M_tree dG/dt + G^T C_tree G."""
    C = rates.columns(tree_coriolis_matrix(robot.tree, q, rates.qd))
    return (rates.rows(C + rates.along_change(crba(robot.tree, q))),)


def generalized_momentum(robot, rates, q, gravity=None):
    """p (..., nv) and rate (..., nv) with dp/dt = tau + rate: p = G^T p_tree, and
    dp/dt = tau + G^T rate_tree + (dG/dt)^T p_tree."""
    p, rate = tree_momentum(robot.tree, q, rates.qd, gravity)
    return rates.independent(p), rates.independent(rate + rates.turning(p))


def momentum_regressor(robot, rates, q, gravity, link=None):
    """Regressors (..., nv, 10 nbodies) of the generalized momentum and its rate, or those (..., nv, 10) of a
    link."""
    P, R = tree_momentum_regressor(robot.tree, q, rates.qd, gravity, link)
    return rates.rows(P), rates.rows(R) + rates.back_along_change(P)


def jacobian(robot, rates, q, link, reference="world_aligned"):
    """J (..., 6, nv) of a link."""
    return (rates.columns(frame_jacobian(robot.tree, q, link, reference)),)


def frame_jacobian_time_derivative(robot, rates, q, **options):
    """dJ/dt (..., 6, nv) of J of the independent joints: dJ_tree/dt G + J_tree dG/dt."""
    J, change = frame_jacobian_change(robot.tree, q, rates.qd, **options)
    return (rates.columns(change) + rates.along_change(J),)


def frame_jacobian_bias(robot, rates, q, **options):
    """dJ/dt qd (..., 6) of J of the independent joints."""
    rest = rates.accelerations(np.zeros(robot.nv))
    return (frame_kinematics(robot.tree, q, rates.qd, rest, **options)[3],)


def operational_space_inertia_inverse(robot, rates, q, links, reference="world_aligned"):
    """Lambda^-1 (..., 6 k, 6 k) and J (..., 6 k, nv) of k links."""
    (M,) = mass_matrix(robot, rates, q)
    J = np.concatenate([jacobian(robot, rates, q, link, reference)[0] for link in links], axis=-2)
    return inverse_congruence(M, J), J


def inverted(method):
    """The method of Lambda (..., 6 k, 6 k) and J, from one of Lambda^-1 and J. It also returns the square of
    Lambda's condition number (..., 1) in the Frobenius norm, infinite where floats have no inverse, plus what
    more the method returns."""

    def inertia(robot, rates, q, **options):
        inverse, J, *more = method(robot, rates, q, **options)
        unit = np.eye(inverse.shape[-1], dtype=inverse.dtype)
        if inverse.dtype == object:
            Lambda = symmetric(solve_definite(inverse, unit))
        else:  # not solve_definite alone: whether it meets a pivot of zero depends on the BLAS
            singular = ~(np.linalg.cond(inverse) < MAX_CONDITION)[..., None, None]
            Lambda = solve_definite(np.where(singular, unit, inverse), unit)
            Lambda = np.where(singular, np.inf, 0.5 * (Lambda + transpose(Lambda)))
        squares = [np.asarray((matrix * matrix).sum(axis=(-2, -1))) for matrix in (inverse, Lambda)]
        return Lambda, J, np.asarray(squares[0] * squares[1])[..., None] + sum(more)

    return inertia


def reaction_wrenches(robot, rates, q, qdd, gravity, redundant="refuse"):
    """Wrenches (..., nbodies, 6) as in `algorithms.reaction_wrenches`, with drives at the independent joints.
    redundant and errors as in `loop_wrenches`."""
    spread = rates.accelerations(qdd)
    tau = rnea(robot.tree, q, rates.qd, spread, gravity=gravity)
    f_ext = loop_wrenches(robot, q, tau, redundant)
    return (tree_reaction_wrenches(robot.tree, q, rates.qd, spread, gravity, f_ext),)


# --- operational-space inertia of several links (Khatib 1987) -----------------------------------------------

MAX_CONDITION = 1e12  # of Lambda


def extended_forces(robot, rates, q, links, reference="world_aligned"):
    """Lambda^-1 (6k, 6k) and J (6k, nv) of k links by force propagation. rates: explicit."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    still, rest = np.zeros((tree.nbodies, 6)), np.zeros(robot.nv)
    solutions = inward(robot, X_up, rates.G, still, np.zeros(tree.nv), rest, [True] * len(robot.clusters))
    wrenches = [_unit_wrenches(tree, q, link, reference) for link in links]
    forces = forces_at_joints(robot, X_up, solutions, wrenches, [6] * len(links))
    J = np.concatenate([rates.columns(frame_jacobian(tree, q, link, reference)) for link in links])
    return symmetric(apparent_matrix(solutions, forces)), J


def _unit_wrenches(tree, q, link, reference):
    """{body: (6, 6)}: the forces on the body by unit wrenches at a link, in the axes of the reference."""
    frame = tree.frame(link)
    if frame.body < 0:
        return {}
    if reference_named(reference) == "body":
        return {frame.body: frame.X.T}
    return {frame.body: frame.X.T @ motion_to_reference(frame_transform(tree, q, link), reference).T}


def invert(inertia_inverse):
    """Lambda (n, n), or None if Lambda^-1 is singular, and the condition number of Lambda^-1.

    The inverse exists only below a condition number of 1e12.
    """
    condition = float(np.linalg.cond(inertia_inverse)) if inertia_inverse.size else np.inf
    if not condition < MAX_CONDITION:
        return None, condition
    return np.linalg.inv(inertia_inverse), condition
