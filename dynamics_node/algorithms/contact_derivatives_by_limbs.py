"""First derivatives of forward and hybrid dynamics with contacts, forces with their limbs.

The equations of algorithms/contact_derivatives.py are one sparse symmetric system. With F = -s J,

    M dqdd + F^T dlambda = dtau - dID,   F dqdd - (1 - s) dlambda = s db

The rows of a contact are eliminated with the branch that carries it, after the coordinates there, as in
algorithms/contact_limbs.py. A column costs the coordinates of its limb and those above, and no matrix over
several limbs arises. Where a limb does not move its contacts, pivots of rows are weak: `health` measures it.
Such states, and redundant contacts, are left to `contact_derivative_program`.
"""

from functools import partial

import numpy as np

from dynamics_node.algorithms.composite_contacts import ByComposites, has_composites
from dynamics_node.algorithms.contact_derivatives import state_health
from dynamics_node.algorithms.contact_dynamics import SMALL, row_units
from dynamics_node.algorithms.contact_limbs import WEAKEST, is_healthy_somewhere
from dynamics_node.algorithms.health import health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.reduced_frames import parameter_shapes
from dynamics_node.algorithms.solution_by_branches import BranchSolver, branches_of
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import LaneProgram, Staging, Value


def contact_derivatives_by_limbs(
    robot: Robot, problem: Problem, wrenches=False, parameters=()
) -> LaneProgram | None:
    """A Program as of `contact_derivative_program`; None if there are no such limbs, or if their contacts are
    redundant at positions that are not special."""
    if not any(problem.forward) or not has_composites(robot, problem.contacts):
        return None
    staging = Staging(problem.reads(robot, wrenches) | parameter_shapes(robot, parameters))
    results = _results(robot, problem, staging, parameters)
    if results is None:
        return None
    watched = weak_coordinates(robot, np.array(problem.forward))
    program = staging.finish(results, [*health_limits(robot, watched), WEAKEST, LEANING])
    return program if is_healthy_somewhere(program, robot, problem, wrenches, parameters) else None


def _results(robot, problem, staging, parameters):
    """The outputs; None if no branch carries the rows of a contact."""
    forward, given, nv = np.array(problem.forward), staging.arrays, robot.nv
    free, prescribed = np.flatnonzero(forward), np.flatnonzero(~forward)
    units = row_units(problem.contacts)
    active = np.repeat(given["active"], [len(contact.rows) for contact in problem.contacts])
    scales = staging.alone(np.multiply, -units, active)
    at = ByComposites(robot, problem.contacts, staging, parameters, scales)
    known = np.where(forward, 0.0, given.get("qdd", np.zeros(nv)))
    torques, gaps = at.start(known)
    places = _places(at.M[free[:, None], free], at.J[:, free], problem.contacts)
    if places is None:
        return None
    columns, rows, touched = places
    size = len(columns) + len(rows)
    K, right = np.zeros((size, size), dtype=object), np.zeros(size, dtype=object)
    K[columns[:, None], columns] = at.M[free[:, None], free]
    K[rows[:, None], columns], K[columns[:, None], rows] = at.J[:, free], at.J[:, free].T
    K[rows, rows] = staging.alone(partial(np.add, -1.0), active)
    solver = BranchSolver(staging, K)
    right[columns], right[rows] = staging.alone(np.subtract, torques[free], given["tau"][free]), gaps
    solved = solver.solution(right)
    qdd = known.astype(object)
    qdd[free] = solved[columns]
    at.move(qdd, staging.alone(np.negative, solved[rows]))
    changes = [
        at.by_position(),
        at.by_velocity(),
        (np.where(forward, -np.eye(nv), at.M), np.where(forward, 0.0, at.J)),
    ]
    torques, gaps = (np.concatenate(part, axis=1) for part in zip(*changes, strict=True))
    right = np.zeros((size, 3 * nv), dtype=object)
    right[columns], right[rows] = torques[free], gaps
    X = solver.solutions(right)
    unknowns = np.zeros(torques.shape, dtype=object)
    unknowns[free] = X[columns]
    if prescribed.size:
        among = np.concatenate([at.M[prescribed[:, None], free], at.J[:, prescribed].T], axis=1)
        lanes = torques[prescribed].T, X[np.concatenate([columns, rows])].T
        unknowns[prescribed] = staging.side_by_side(_prescribed, *lanes, shared=(among,)).T
    forces = staging.side_by_side(np.multiply, X[rows].T, shared=(units,)).T
    results = dict(zip(("dq", "dqd", "dknown"), np.split(unknowns, 3, axis=1), strict=True))
    dq, dqd, dknown = np.split(forces, 3, axis=1)
    results |= {"forces_dq": staging.alone(np.subtract, dq, at.turning), "forces_dqd": dqd}
    weakness = staging.alone(partial(_weakness, rows, touched), *solver.factored, active)
    judge = partial(state_health, robot, problem.contacts, forward, parameters)
    state = (given[name] for name in ("q", "qd", "active", *parameters))
    return results | {"forces_dknown": dknown, "health": staging.alone(judge, weakness, *state)}


def _places(M, J, contacts):
    """The places of coordinates (n,) and rows of contacts (rows,) in the system, of which the last one is
    eliminated first: rows stand before the coordinates of their branch. And, for every branch with rows,
    their numbers and the places of its coordinates. None if a branch has fewer coordinates than rows."""
    branches, start = branches_of(M), 0
    carried: dict[int, list[int]] = {k: [] for k in range(len(branches))}
    for contact in contacts:
        own = list(range(start, start := start + len(contact.rows)))
        moved = [k for k in range(len(M)) if any(isinstance(x, Value) for x in J[own, k])]
        if not moved:
            return None
        (branch,) = (k for k, (inside, _) in enumerate(branches) if moved[-1] in inside)
        carried[branch] += own
    columns, rows = np.zeros(len(M), int), np.zeros(len(J), int)
    touched, count = [], 0
    for k, (inside, _) in sorted(enumerate(branches), key=lambda pair: pair[1].inside[0]):
        if len(carried[k]) > len(inside):
            return None
        rows[carried[k]] = np.arange(count, count := count + len(carried[k]))
        columns[inside] = np.arange(count, count := count + len(inside))
        touched += [(carried[k], columns[inside])] if carried[k] else []
    return columns, rows, touched


# --- functions of stages ------------------------------------------------------------------------------------


def _weakness(rows, touched, L, inverse, active):
    """(1,): the sum of squares of the mean size of the rows of a limb relative to their pivots."""
    weakness = 0.0
    for own, columns in touched:
        squares = [L[k, row] * L[k, row] * (1.0 / inverse[k]) for row in rows[own] for k in columns]
        size = -sum(squares) * (1.0 / len(own)) + SMALL
        ratios = active[own] * size * inverse[rows[own]]
        weakness = weakness + ratios @ ratios
    return np.array([weakness], dtype=object)


def _prescribed(torques, X, among):
    return torques + among @ X
