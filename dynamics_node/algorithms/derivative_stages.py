"""Derivatives of a tree's inverse, forward and hybrid dynamics in stages: see composites.py.

Those of forward and hybrid dynamics follow from M qdd + h = tau, column by column side by side.
"""

from functools import partial

import numpy as np

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.composites import Composites
from dynamics_node.algorithms.pivots import health, inertia_scale, losses, weak_coordinates
from dynamics_node.algorithms.reduced_frames import economical, with_inputs
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.inertial_parameters import PARAMETERS
from dynamics_node.robot.regroup import regrouped_away
from dynamics_node.symbolic import (
    LaneProgram,
    Staging,
    half_solved,
    inverse_motion_transform,
    matvec,
    pseudo_inertia,
    transpose,
)

_UPPER = np.triu_indices(4)


def derivative_stages(model: Robot, problem: Problem, inputs) -> LaneProgram:
    """As `derivative_program`, of inputs {name: shape}."""
    forward = np.array(problem.forward, dtype=bool)
    tree, T = economical(model)
    staging = Staging(inputs)
    given = staging.arrays
    J = _pseudo_inertias(tree, given.get("inertia"))
    work = Composites(tree, staging, J, given["q"], given["qd"], given["gravity"])
    outer = None
    if "f_ext" in given:
        outer = work.of_bodies(matvec, transpose(inverse_motion_transform(T)), given["f_ext"])
    work.accelerate(np.where(forward, 0.0, given.get("qdd", np.zeros(model.nv))), outer)
    armature = given.get("armature", tree.armature)
    M = work.masses(armature)
    if forward.any():
        results = _solved(work, forward, M, armature, given["tau"])
    else:
        results = dict(zip(("dq", "dqd"), work.derivatives(), strict=True)) | {"dknown": M}
    watched = weak_coordinates(model, forward)
    if not watched.any():
        return staging.finish(results)
    names = [name for name in PARAMETERS if name in given]
    judge = partial(_health, tree, forward, watched, names)
    results["health"] = staging.alone(judge, given["q"], M, *(given[name] for name in names))
    return staging.finish(results, pivots.HEALTHY)


def _pseudo_inertias(tree, numbers):
    """(nbodies, 4, 4) with base parameters; numbers (nbodies, 10): those that are inputs, or None."""
    J = pseudo_inertia(tree.inertias).astype(object)
    if numbers is not None:
        J[:, _UPPER[0], _UPPER[1]] = J[:, _UPPER[1], _UPPER[0]] = numbers
    J[regrouped_away(tree)] = 0.0
    return J


def _solved(work, forward, M, armature, tau):
    """dq, dqd and dknown where some joints give way."""
    alone, side_by_side = work.staging.alone, work.staging.side_by_side
    free, nv = np.flatnonzero(forward), len(forward)
    factors = alone(_factors, M[free[:, None], free])
    qdd = np.zeros(nv, dtype=object)
    qdd[free] = alone(_accelerations, tau[free], work.torques(armature)[free], *factors)
    work.accelerate_more(qdd)
    zero, ask = np.zeros((nv, nv)), partial(_asked, forward)
    known = (np.where(forward, 0.0, M), np.diag(np.where(forward, 1.0, 0.0)))
    changes = [(matrix, zero) for matrix in work.derivatives()] + [known]
    return {
        name: side_by_side(ask, torques.T, own, shared=(M, *factors)).T
        for name, (torques, own) in zip(("dq", "dqd", "dknown"), changes, strict=True)
    }


def _factors(M):
    """L, strictly lower, and the reciprocals of D of M = L^T D L."""
    L, D, _ = half_solved(M, np.zeros((len(M), 0)))
    return np.tril(L, -1), np.array([1.0 / d for d in D], dtype=object)


def _accelerations(tau, torques, L, inverse):
    return _solution(tau - torques, L, inverse)


def _solution(right, L, inverse):
    """x of L^T D L x = right (n,)."""
    x = right.copy()
    for k in reversed(range(len(x))):
        x[:k] = x[:k] - L[k, :k] * x[k]
    x = x * inverse
    for k in range(len(x)):
        for i in range(k):
            x[k] = x[k] - L[k, i] * x[i]
    return x


def _asked(forward, torques, own, M, L, inverse):
    """A column of what is asked: torques (nv,), what torques change by while accelerations stay; own (nv,):
    what the known ones do."""
    free, driven = np.flatnonzero(forward), np.flatnonzero(~forward)
    asked = torques.copy()
    asked[free] = _solution(own[free] - torques[free], L, inverse)
    asked[driven] = torques[driven] + M[driven[:, None], free] @ asked[free]
    return asked


def _health(tree, forward, watched, names, q, M, *parameters):
    own = with_inputs(tree, **dict(zip(names, parameters, strict=True)))
    return health(losses(M, forward, watched, inertia_scale(own, q)))
