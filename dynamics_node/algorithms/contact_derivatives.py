"""First derivatives of dynamics with contacts, in stages, without differentiating a solver.

At the solution the torques ID(x, qdd, lambda) - tau are zero, and so are the accelerations b(x, qdd) of
active contacts. If x = (q, qd) or a known quantity changes, so do the unknowns; s is 1 at active contacts:

    M dqdd - J^T dlambda = dtau - dID,   s (J dqdd + db) + (1 - s) dlambda = 0.

dID and db, at constant accelerations and forces, are of algorithms/contact_linearization.py.

The forces of redundant contacts are the shortest ones, lambda = J y. In redundant directions they change like
J y at constant y. Those of inverse dynamics are J y everywhere, y being rates of floating bases.

Golub and Pereyra 1973, The differentiation of pseudo-inverses. Carpentier, Budhiraja and Mansard 2021,
Proximal and sparse resolution of constrained dynamic equations.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.composite_contacts import ByComposites, has_composites
from dynamics_node.algorithms.contact_dynamics import (
    SMALL,
    UNCLEAR,
    base_coordinates,
    clarity,
    damped,
    fixed_vector,
    row_units,
    touch_at,
)
from dynamics_node.algorithms.contact_linearization import ByPrograms
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_shapes, with_inputs
from dynamics_node.algorithms.solution_by_branches import BranchSolver, solution
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import LaneProgram, Staging

CONTRADICTORY = 1e-16  # limit of `health`: the squared part of accelerations that no force cancels
ROUNDING = 1e-8  # (m/s^2)^2; smaller accelerations of contacts do not count as contradictory


class Solved(NamedTuple):
    """The solution at a state.

    qdd (nv,); components (rows,) of forces along P; along (nv,): rates y with scaled forces = scales * J y;
    health: `clarity`, and of forward dynamics the squared part of accelerations that no force cancels."""

    qdd: Any
    components: Any
    along: Any
    health: Any


def contact_derivative_program(robot: Robot, problem: Problem, wrenches=False, parameters=()) -> LaneProgram:
    """The Program of the derivatives of the unknowns and of the contact forces by q, qd and the knowns:
    outputs dq, dqd, dknown (nv, nv), forces_dq, forces_dqd, forces_dknown (rows, nv) and health.

    Inputs: those that the problem reads, then parameters. Derivatives are as in `derivative_program`."""
    forward = np.array(problem.forward, dtype=bool)
    staging = Staging(problem.reads(robot, wrenches) | parameter_shapes(robot, parameters))
    linearized = ByComposites if has_composites(robot, problem.contacts) else ByPrograms
    at = linearized(robot, problem.contacts, staging, parameters)
    solve = _stuck if any(problem.forward) else _held
    unknowns, forces, unclear = solve(robot, problem, staging, at)
    results = dict(zip(("dq", "dqd", "dknown"), np.split(unknowns, 3, axis=1), strict=True))
    parts = zip(("forces_dq", "forces_dqd", "forces_dknown"), np.split(forces, 3, axis=1), strict=True)
    results |= dict(parts)
    watched, given = weak_coordinates(robot, forward), staging.arrays
    judge = partial(state_health, robot, problem.contacts, forward, parameters)
    state = (given[name] for name in ("q", "qd", "active", *parameters))
    results["health"] = staging.alone(judge, unclear, *state)
    contradictory = [CONTRADICTORY] * (len(unclear) - 1)
    limits = [*health_limits(robot, watched), UNCLEAR, *contradictory, LEANING]
    return staging.finish(results, limits)


def state_health(robot, contacts, forward, parameters, unclear, q, qd, active, *values):
    """Health of loops and mass matrix, then `unclear`, then `PlacedContacts.invalid`."""
    watched = weak_coordinates(robot, forward)
    own = with_inputs(economical_robot(robot)[0], **dict(zip(parameters, values, strict=True)))
    parts = [unclear]
    if len(health_limits(robot, watched)):
        parts.insert(0, health(own, q, rates_at(own, q, qd), forward, watched))
    parts.append(touch_at(own.tree, q, contacts, active).invalid())
    return np.concatenate(parts)


def _scales(problem, active):
    return row_units(problem.contacts), np.repeat(active, [len(c.rows) for c in problem.contacts])


# --- forward and hybrid dynamics ----------------------------------------------------------------------------


def _stuck(robot, problem, staging, at):
    """Derivatives (nv, 3 nv) of the unknowns and (rows, 3 nv) of the forces, and health."""
    forward, given = np.array(problem.forward, dtype=bool), staging.arrays
    free, prescribed = np.flatnonzero(forward), np.flatnonzero(~forward)
    known = np.where(forward, 0.0, given.get("qdd", np.zeros(robot.nv)))
    torques, gaps = at.start(known)
    M, J = at.M[free[:, None], free], at.J[:, free]
    solver = BranchSolver(staging, M)
    rest = staging.alone(np.subtract, torques[free], given["tau"][free])
    units, active = _scales(problem, given["active"])
    W = solver.solutions(staging.alone(np.multiply, J.T, -units))
    stuck = _Stuck(staging, units, active, J, W)
    solved = stuck.solved(free, solver.solution(rest), gaps, known)
    at.move(solved.qdd, solved.components)
    identity = np.diag(-1.0 * forward)
    changes = [
        at.by_position(),
        at.by_velocity(),
        (np.where(forward, identity, at.M), np.where(forward, 0.0, at.J)),
    ]
    torques, gaps = (np.concatenate(part, axis=1) for part in zip(*changes, strict=True))
    columns = solver.solutions(torques[free])
    accelerations, components = stuck.changes(columns, gaps, at.velocities(solved.along), not prescribed.size)
    unknowns = np.zeros(torques.shape, dtype=object)
    unknowns[free] = accelerations
    if prescribed.size:
        lanes = torques[prescribed].T, accelerations.T, components.T
        among = at.M[prescribed[:, None], free], at.J[:, prescribed]
        unknowns[prescribed] = staging.side_by_side(_prescribed, *lanes, shared=among).T
    return unknowns, _in_axes(staging, at, components), solved.health


class _Stuck:
    """Forces of stuck contacts, at a state: J (rows, free) along P, W = M^-1 J^T (free, rows) of rows in
    `units`.

    The matrices of the scaled forces are computed once, for all columns of derivatives: `shortest` is the
    explicit map of Damped.shortest, `redundant` is 1 in redundant directions and 0 in others.
    """

    def __init__(self, staging, units, active, J, W):
        self._staging, self._J, n = staging, J, len(J)
        self._scales = staging.alone(np.multiply, units, active)
        flags = active[:, None]
        self._W, self._A = staging.side_by_side(_apparent, W.T, flags, shared=(J, self._scales))
        self._W = self._W.T
        of = staging.alone(_damped, self._A, active)
        self._T, self._shortest, self._redundant = staging.side_by_side(_maps, np.eye(n), shared=(of,))

    def _times(self, matrix, x):
        return self._staging.side_by_side(_product, matrix, shared=(x,))

    def solved(self, free, qdd, gaps, known):
        """Solved; qdd (free,) without forces; gaps (rows,), known (nv,) without accelerations of free
        coordinates."""
        alone, times = self._staging.alone, self._times
        missing = alone(_missing, self._scales, gaps, self._J, qdd)
        forces = times(self._shortest, missing)
        along, accelerations = np.zeros((2, len(known)), dtype=object)
        along[free] = times(self._W, times(self._shortest, forces))
        accelerations[:] = known
        accelerations[free] = alone(np.add, qdd, times(self._W, forces))
        once = times(self._T, fixed_vector(len(gaps)))
        judged = missing, times(self._A, forces), once, times(self._T, once)
        components = alone(np.multiply, self._scales, forces)
        return Solved(accelerations, components, along, alone(_unclear, *judged))

    def changes(self, accelerations, gaps, along, by_torques):
        """Changes (free, 3 nv) of accelerations and (rows, 3 nv) of components along P, if gaps (rows, 3 nv)
        change at constant accelerations and forces, and accelerations at constant forces. along (rows, nv):
        changes of the velocities along P at rates Solved.along, by position. by_torques: whether the last nv
        columns are those of unit torques."""
        n, nv = along.shape
        side_by_side, shared = self._staging.side_by_side, (self._J, self._W, self._scales, self._shortest)
        turned = side_by_side(_redundant, along.T, shared=(self._scales, self._redundant))
        more = np.concatenate([turned, np.zeros((2 * nv, n))])
        first = np.arange((2 if by_torques else 3) * nv)
        lanes = accelerations.T[first], gaps.T[first], more[first]
        found = side_by_side(_stuck_column, *lanes, shared=shared)
        if by_torques:
            rest = side_by_side(_torque_column, accelerations.T[2 * nv :], self._W, shared=shared[1:])
            found = tuple(np.concatenate(pair) for pair in zip(found, rest, strict=True))
        return tuple(part.T for part in found)


def _apparent(w, s, J, scales):
    """A column of W, and of the matrix A of scaled forces, of an active row; s: whether it is."""
    w = w * s
    return w, scales * (J @ w)


def _damped(A, active):
    """Damped, with rows that are not active apart."""
    size = np.trace(A) * (1.0 / len(A)) + SMALL
    return damped(A + np.diag((1.0 - active) * size), size)


def _product(row, x):
    return row @ x


def _maps(unit, of):
    """Columns of T, of the map of Damped.shortest, and of 3 T^2 - 2 T^3. All but two factors 1 - T of the map
    are those of the right-hand side here."""
    once = of.redundant_part(unit)
    twice = of.redundant_part(once)
    thrice = of.redundant_part(twice)
    x = -solution(unit + 3.0 * once + 6.0 * twice - 10.0 * thrice, *of.factored)
    for _ in range(2):
        x = x - of.redundant_part(x)
    return once, x, 3.0 * twice - 2.0 * thrice


def _missing(scales, gaps, J, qdd):
    return -scales * (gaps + J @ qdd)


def _unclear(missing, met, once, twice):
    """Health: clarity, and the squared part of missing accelerations that no force meets."""
    rest, unclear = missing - met, once - twice
    return np.array([unclear @ unclear, rest @ rest / (missing @ missing + ROUNDING)])


def _redundant(along, scales, redundant):
    return redundant @ (scales * along)


def _stuck_column(accelerations, gaps, more, J, W, scales, shortest):
    forces = more - shortest @ (scales * (gaps + J @ accelerations))
    return accelerations + W @ forces, scales * forces


def _torque_column(accelerations, w, W, scales, shortest):
    """The column of a unit torque, given that of M^-1 and of W."""
    forces = -(shortest @ w)
    return accelerations + W @ forces, scales * forces


def _prescribed(torques, accelerations, components, M, J):
    return torques + M @ accelerations - components @ J


def _in_axes(staging, at, components):
    """The changes (rows, 3 nv) of forces in the axes of the contacts."""
    nv = components.shape[1] // 3
    parts = [components[:, :nv], components[:, nv:]]
    turned = [staging.side_by_side(_turned, part.T, shared=(at.turn,)).T for part in parts]
    return np.concatenate([staging.alone(np.add, turned[0], at.turning), turned[1]], axis=1)


def _turned(components, turn):
    return turn @ components


# --- inverse dynamics ---------------------------------------------------------------------------------------


def _held(robot, problem, staging, at):
    """Derivatives (nv, 3 nv) of the torques and (rows, 3 nv) of the forces, and health."""
    given, nv = staging.arrays, robot.nv
    base = base_coordinates(robot) if problem.kind == "inverse" else np.zeros(0, dtype=int)
    torques, _ = at.start(given["qdd"])
    touch = *_scales(problem, given["active"]), at.J[:, base]
    solved, rest, scales, of = staging.alone(partial(_shortest, base), *touch, torques, given["qdd"])
    at.move(solved.qdd, solved.components)
    changes = at.by_position()[0], at.by_velocity()[0], at.M
    moved = at.velocities(solved.along), at.velocities(rest)
    if base.size:
        still, shared = np.zeros((2 * nv, len(at.J))), (at.J[:, base], scales, of)
        columns: list = [(changes[0][base].T, *(part.T for part in moved))]
        columns += [(np.concatenate([part[base] for part in changes[1:]], axis=1).T, still, still)]
        parts = [staging.side_by_side(_held_column, *each, shared=shared) for each in columns]
        components = np.concatenate(parts).T
    else:
        components = np.zeros((len(at.J), 3 * nv))
    torques = np.concatenate(changes, axis=1)
    lanes = torques.T, np.zeros((3 * nv, 0)), components.T
    tau = staging.side_by_side(_prescribed, *lanes, shared=(np.zeros((nv, 0)), at.J)).T
    return tau, _in_axes(staging, at, components), solved.health


def _shortest(base, units, active, J, torques, qdd):
    """Solved; the torques (nv,) that no force gives; scales (rows,) of rows and forces, zero where a contact
    is not active, and the matrix of the scaled forces. J (rows, base): the columns of the floating bases;
    torques (nv,) without forces."""
    still = np.zeros(len(qdd))
    if not base.size:
        solved = Solved(qdd, np.zeros(len(J)), still, np.zeros(1))
        return solved, still, units * active, damped(np.eye(1), 1.0)
    scales = units * active
    F, along, rest = (scales[:, None] * J).T, still.astype(object), still.astype(object)
    A = F @ F.T
    of = damped(A, np.trace(A) + 1e-3)
    y = of.shortest(torques[base])
    forces = F.T @ y
    along[base], rest[base] = y, torques[base] - F @ forces
    return Solved(qdd, scales * forces, along, clarity(of)), rest, scales, of


def _held_column(torques, along, rest, J, scales, of):
    """Changes of components (rows,) if torques (base,) change at constant ones."""
    F, along, rest = (scales[:, None] * J).T, scales * along, scales * rest
    y = of.shortest(torques - F @ along) + of.shortest(of.shortest(F @ rest))
    return scales * (along + F.T @ y)
