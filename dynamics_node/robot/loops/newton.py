"""Newton's method for closed positions, of all states of an array at once."""

import numpy as np

from dynamics_node.robot.grouping import members_of
from dynamics_node.robot.loops.equations import closing_program, position_program
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret, interpret_portable, least_squares, product

TOLERANCE = 1e-10  # m or rad; largest opening of a closed loop
TURNED = 0.5  # 1 minus the cosine between common directions; 0 if closed, at least 1 on a wrong branch
STEPS = 50
LARGEST = 0.5  # rad or m; largest step of a joint of a linkage
DAMPING = 1e-2  # of the first step of a damped search


def closed_near(tree, constraints, coordinates, q, tolerance=TOLERANCE):
    """q (count, nq) moved to closed positions, with all joints of `coordinates` (velocity numbers) free;
    states that do not converge are left out. tolerance: m or rad."""
    nearer, still_open = brought_nearer(tree, constraints, coordinates, q, tolerance)
    return nearer[still_open < tolerance]


def brought_nearer(tree, constraints, coordinates, q, tolerance=TOLERANCE):
    """q (count, nq) moved towards closed positions by Newton's method, and their openings (count,), m or rad.
    The result has the same digits on every machine: it decides about rows and joints."""
    program, bent = closing_program(tree, constraints), bends(tree, constraints, coordinates)
    q = np.array(q, dtype=float)
    left = np.arange(len(q))
    for _ in range(STEPS if len(q) else 0):
        equations = interpret_portable(program, q=q[left])
        step = least_squares(equations["K"][:, :, list(coordinates)], -equations["open"])
        q[left] = moved(tree, q[left], coordinates, shortened(step, bent))
        left = left[opening(equations) >= tolerance]  # the last step squares the opening
        if not len(left):
            break
    return q, opening(interpret_portable(program, q=q))


def downhill(tree, constraints, coordinates, q):
    """q (count, nq) moved by damped steps (Levenberg and Marquardt): slower than Newton's method, but more of
    the starts end near closed positions. Damping bounds the steps, so slides may move far in one. The result
    has the same digits on every machine."""
    program = closing_program(tree, constraints)
    q, damping = np.array(q, dtype=float), np.full(len(q), DAMPING)
    here = interpret_portable(program, q=q)
    for _ in range(2 * STEPS):
        size = _squares(here)
        K = here["K"][:, :, list(coordinates)]
        step = least_squares(K, -here["open"], damping * np.minimum(size, 1.0))
        trial = moved(tree, q, coordinates, step)
        there = interpret_portable(program, q=trial)
        better = _squares(there) < size
        q[better] = trial[better]
        for name, values in here.items():
            values[better] = there[name][better]
        damping = np.clip(np.where(better, damping / 4, damping * 4), 1e-12, 1e6)
    return q


def _squares(equations):
    """(count,): a measure of the openings that grows up to half a turn."""
    parts = np.concatenate([equations["gaps"] ** 2, 2.0 * equations["turned"]], axis=1)
    return product(parts, np.ones(parts.shape[1]))


def opening(equations):
    """(count,): by how much loops are open, m, rad or 1, from the outputs of a closing_program."""
    turned = equations["turned"].max(axis=1, initial=0.0)
    return np.maximum(
        np.abs(equations["gaps"]).max(axis=1, initial=0.0), np.where(turned > TURNED, turned, 0)
    )


def why_constraint_open(tree, constraints, q, tolerance):
    """Which constraint is open by more than the tolerance, m or rad, at one of the positions q (..., nq).
    None if none is."""
    for constraint in constraints:
        equations = interpret(position_program(tree, (constraint,)), q=q)
        gap = np.abs(equations["gaps"]).max(initial=0.0)
        if gap > tolerance:
            return f"{constraint.name!r} is open by {gap:.3g}"
        if equations["turned"].max(initial=0.0) > TURNED:
            return f"{constraint.name!r} is open: its ends are turned away from each other"
    return None


def shortened(step, bent):
    """A step (count, n), shortened so that no joint of `bent` (n,) bool moves farther than LARGEST."""
    longest = np.abs(step[:, bent]).max(axis=-1, keepdims=True, initial=LARGEST)
    return step * (LARGEST / longest)


def bends(tree, constraints, coordinates):
    """(n,) bool: which velocity coordinates move bodies of a constraint. A linkage may not turn far in one
    step."""
    bodies = set().union(*(members_of(tree, c) for c in constraints))
    bent = {v for i in bodies for v in tree.bodies[i].joint.moved_by}
    return np.array([v in bent for v in coordinates], dtype=bool)


def positions_of(tree, coordinates):
    """Indices in q of joints given by some of their velocity coordinates."""
    at = {v: range(j.q.start, j.q.stop) for j in tree.independent_joints for v in range(tree.nv)[j.v]}
    return list(dict.fromkeys(k for v in coordinates for k in at[v]))
