"""Every solver on a linkage, at home and near it, against Pinocchio."""

from typing import NamedTuple

import numpy as np
from loop_oracle import LoopOracle
from proximal import Proximal
from tolerances import EPS, EXACT, error

import dynamics_node as dn

REACHES = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 0.1)  # rad or m from home
REGULAR = 1e6  # largest condition of K_dep at which a solution is required
OPEN = 1e-6  # m or 1
NEAREST = 1e-9  # largest error of results by Gauss' principle
CLEAR = (1e-13, 1e-2)  # relative singular values of constraints that are zero, and that are not


class Trial(NamedTuple):
    """conditions: of K_dep at the solved states; wrong: descriptions of wrong results; refused: descriptions of errors at
    states that must have a solution."""

    conditions: list[float]
    wrong: list[str]
    refused: list[str]


def tried(linkage, compiled=False, seed=0) -> Trial:
    """Raises ModelError if loading rejects the linkage. compiled: also with compiled code."""
    mechanism = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    trial = Trial([], [], [])
    if mechanism.nv:
        reference, random = LoopOracle(linkage.text, mechanism), np.random.default_rng(seed)
        solvers = {backend: _Solvers(mechanism, backend) for backend in ("numpy", "c")[: 1 + compiled]}
        for q in positions(linkage, mechanism, random):
            _try(trial, reference, solvers, q, random)
    return trial


def positions(linkage, mechanism, random):
    """The home position and closed positions near it."""
    home, names = mechanism.neutral(), mechanism.q_names
    for name in set(linkage.home) & set(names):  # these determine the others
        home[names.index(name)] = linkage.home[name]
    own = [joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]
    for reach in REACHES:
        q = home.copy()
        if linkage.floating_base:
            turn = random.normal(size=4)
            q[:3], q[3:7] = random.normal(size=3), turn / np.linalg.norm(turn)
        q[own] += reach * random.uniform(-1, 1, len(own))
        yield dn.close_loops(mechanism, q, errors="nan") if reach else q


class _Solvers:
    """The functions under test, by one backend."""

    def __init__(self, mechanism, backend):
        self.inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend=backend)
        self.forward = dn.build(mechanism, dn.forward_dynamics(mechanism), backend=backend)
        self.mass_matrix = dn.build(mechanism, "mass_matrix", backend=backend)


def _try(trial, reference, solvers, q, random):
    mechanism = reference.model
    yd, ydd = random.uniform(-1, 1, (2, mechanism.nv))
    if not np.isfinite(q).all():
        return  # no closed position is near
    if (gap := reference.gap(q)) > OPEN:
        trial.wrong.append(f"closed, though open by {gap:.2g}")
        return
    _try_nearest(trial, reference, solvers["numpy"].forward, q, yd)
    spread, M = reference.spread_over_bodies(q, yd), reference.mass_matrix(q)
    tau = reference.inverse(q, yd, ydd)
    # K_dep of one dependent joint has condition 1, but near a dead center G amplifies rounding errors
    condition = max(1.0, spread.condition, np.abs(spread.G).max())
    exact = EXACT * condition
    solved = np.maximum(1e-9, 100 * EPS * _forward_condition(M, tau, ydd)) * condition
    expected = {"rates": (lambda: dn.spanning(mechanism, q, yd)[1], spread.G @ yd, exact)}
    for name, one in solvers.items():
        expected |= {
            f"inverse ({name})": (lambda one=one: one.inverse(q, yd, ydd), tau, exact),
            f"forward ({name})": (lambda one=one: one.forward(q, yd, tau), ydd, solved),
            f"mass matrix ({name})": (lambda one=one: one.mass_matrix(q), M, exact),
        }
    for what, (solve, right, tolerance) in expected.items():
        _judge(trial, what, solve, right, tolerance, condition, np.linalg.cond(M))


def _try_nearest(trial, reference, forward, q, tau):
    """Accelerations from rest by Gauss' principle, also at singular positions."""
    state = Proximal(reference, q)
    sizes = np.linalg.svd(state.K, compute_uv=False)
    if ((sizes < CLEAR[0] * sizes[0]) | (sizes > CLEAR[1] * sizes[0])).all():
        every = np.ones(len(tau), dtype=bool)
        right, _ = state.accelerations(np.zeros(reference.pin.nv), every, tau, tau)
        missed = error(forward.nearest(q, 0.0 * tau, tau).accelerations, right[reference.order])
        if not missed <= NEAREST:
            trial.wrong.append(f"nearest accelerations: off by {missed:.2g}")


def _forward_condition(M, tau, ydd):
    """The relative change of ydd per relative change of M or tau, infinite for a singular M.

    Near a dead center large torques almost cancel, and ydd is a small remainder.
    """
    sizes = np.linalg.svd(M, compute_uv=False)
    if sizes[-1] <= EPS * sizes[0]:
        return np.inf
    return max(sizes[0], np.abs(tau).max() / np.abs(ydd).max()) / sizes[-1]


def _judge(trial, what, solve, right, tolerance, condition, weight):
    where = f"{what} at condition {condition:.2g}"
    try:
        result = solve()
    except dn.SolutionError as reason:
        if condition < REGULAR and weight < REGULAR:
            trial.refused.append(f"{where}: {reason}")
        return
    if not np.isfinite(result).all():
        if condition < REGULAR:
            trial.refused.append(f"{where}: not finite")
        return
    trial.conditions.append(condition)
    missed = error(result.ravel(), right.ravel())
    if np.isinf(tolerance) or not missed <= tolerance:
        trial.wrong.append(f"{where}: off by {missed:.2g}")
