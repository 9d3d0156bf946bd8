"""Thirty random robots with random contacts: trees with gears and floating bases, and loops.

The equation of motion and the accelerations of active contacts determine the result. Both are taken from functions
without forces of contacts.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from linkages import delta, palletizer, parallelograms, slider_crank, spatial
from stressed import stressed_tree
from test_contact_oracles import random_contacts
from trials import positions

import dynamics_node as dn

DECADES = (0, 4, 5)  # have loops of all kinds
LOOPS = (
    palletizer,
    parallelograms,
    slider_crank,
    delta,
    partial(spatial, kinds=["rod"]),
    partial(spatial, kinds=["universal"]),
)
EXACT = 1e-8
STEP = 1e-5  # s; of differences of velocities
SLOPE = 1e-6  # their accuracy


def robot_at(seed):
    """A robot and a closed position; None if it cannot move, or if its inertia is singular there."""
    random = np.random.default_rng(seed)
    try:
        robot, q = linkage(seed, random) if seed % 4 == 0 else tree(random)
    except dn.ModelError:
        return None
    if robot.nv < 2 or not np.isfinite(q).all():
        return None
    M = dn.evaluate(robot, "mass_matrix", q, backend="numpy", errors="nan")
    regular = np.isfinite(M).all() and np.linalg.cond(M / scale_of(M)) < 1e5
    return (robot, q, random) if regular else None


def linkage(seed, random):
    own = LOOPS[seed // 4 % len(LOOPS)](random)
    robot = dn.parse_robot(own.text, floating_base=own.floating_base)
    return robot, list(positions(own, robot, random))[1]


def tree(random):
    own = stressed_tree(random)
    robot = dn.parse_robot(own.text, floating_base=own.floating_base)
    return robot, dn.integrate(robot, robot.neutral(), random.uniform(-1, 1, robot.nv))


def scale_of(M):
    """M divided by this has ones on its diagonal."""
    size = np.sqrt(np.diag(M))
    return np.outer(size, size)


def moved(robot, q, rates):
    """q (nq,) after a step of constant rates (nv,), closed."""
    q = dn.integrate(robot, q, rates)
    return dn.close_loops(robot, q) if robot.constrained else q


def require_contacts(robot, q, random):
    contacts = random_contacts(robot, random, int(random.integers(1, 4)))
    active = (random.random(len(contacts)) < 0.8).astype(float)
    jacobian = dn.build(robot, "delassus_matrix", contacts=contacts, backend="numpy")
    inverse = dn.build(robot, "inverse_dynamics", backend="numpy")
    forward = dn.build(robot, "forward_dynamics", contacts=contacts, backend="numpy")
    J, on = jacobian(q).jacobian, forward.problem.rows.of_rows(active) > 0
    held = J[on]
    rates, reached = random.uniform(-1, 1, (2, robot.nv))
    rates = rates - np.linalg.pinv(held, rcond=1e-6) @ held @ rates
    ahead, behind = (jacobian(moved(robot, q, sign * STEP * rates)).jacobian @ rates for sign in (1, -1))
    wanted, tau = J @ reached + (ahead - behind) / (2 * STEP), random.uniform(-1, 1, robot.nv)
    qdd, forces = forward(q, rates, tau, active, wanted)
    pushed = inverse(q, rates, qdd) - tau
    size = max(1.0, np.abs(tau).max(), np.abs(pushed).max(), np.abs(inverse(q, rates, 0 * qdd)).max())
    assert np.abs(pushed - J.T @ forces).max() < EXACT * size, "the equation of motion"
    assert not forces[~on].any()
    assert abs(pushed @ rates) < EXACT * size, "the power of forces at contacts that stand still"
    gaps = np.abs(held @ (qdd - reached)).max(initial=0.0)
    assert gaps < SLOPE * max(1.0, np.abs(wanted).max(), np.abs(qdd).max()), "the accelerations of contacts"
    return len(held)


@pytest.mark.long
@pytest.mark.parametrize("decade", DECADES)
def test_random_robots(decade):
    rows, loops = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dn.ModelWarning)
        for seed in range(1000 * decade, 1000 * decade + 100):
            if (case := robot_at(seed)) is not None:
                rows.append(require_contacts(*case))
                loops += case[0].constrained
            if len(rows) == 10:
                break
    assert len(rows) == 10 and sum(rows) > 20 and loops > 0
