"""Closed positions: from far, along a motion, and at the rate of a controller."""

import pickle

import numpy as np
import pytest
from closed_loops import mechanism_of, states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar, four_bar
from dynamics_node.algorithms import continued, first_closed
from dynamics_node.algorithms.constraint_equations import position_program
from dynamics_node.symbolic import interpret


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("name", ["four_bar", "five_bar", "differential", "ball"])
def test_closing_follows_a_motion(name, backend):
    mechanism = mechanism_of(name)
    q, yd, ydd = states(mechanism, 1)
    closing = pickle.loads(pickle.dumps(dn.build_loop_solver(mechanism, backend)))
    own = [joint.q.start for joint in mechanism.independent_joints]
    at = q[0].copy()
    for _ in range(30):
        at[own] += 0.004 * yd[0]
        at, condition = closing(at)
        assert np.abs(at - dn.close_loops(mechanism, at)).max() <= 1e-9
        assert closing.is_regular(at) and 1.0 <= condition < 1e6
    rates, accelerations, G = closing.spread(at, yd[0], ydd[0])
    _, expected, expected_accelerations = dn.spanning(mechanism, at, yd[0], ydd[0])
    assert error(rates, expected) <= EXACT and error(accelerations, expected_accelerations) <= EXACT
    assert error(G @ yd[0], rates) <= EXACT


def test_the_branch_is_kept_where_newton_alone_would_lose_it():
    """A long way in one step, in steps of the library's own."""
    mechanism = dn.parse_robot(four_bar())
    start = dn.close_loops(mechanism, [0.4, 0.1, 1.0])
    goal = np.array([2.6, np.nan, np.nan])
    way = start.copy()
    for crank in np.linspace(0.4, 2.6, 400):
        way[0] = crank
        way = dn.close_loops(mechanism, way)
    assert np.allclose(continued(mechanism, start, np.nan_to_num(goal)), way, atol=1e-9)


def test_the_first_position_is_found_without_the_passive_joints():
    """From joints at zero, which are a singular position of the five-bar."""
    mechanism = dn.parse_robot(five_bar())
    q = first_closed(mechanism, np.zeros(4))
    assert np.abs(q[mechanism.independent]).max() == 0.0
    assert np.abs(dn.close_loops(mechanism, q) - q).max() <= 1e-9


def test_loops_close_from_many_starts():
    """100 starts around reachable positions: residuals below 1e-9 and the independent joints where they were."""
    for name, reach in (
        ("five_bar", 0.4),
        ("four_bar", 0.4),
        ("differential", 0.3),
        ("ball", 0.1),
    ):
        mechanism = mechanism_of(name)
        q, _, _ = states(mechanism, 100, reach=reach)
        dependent = [v for v in range(mechanism.tree.nv) if v not in mechanism.independent]
        start = q.copy()
        start[:, dependent] += np.random.default_rng(1).uniform(-reach / 2, reach / 2, (100, len(dependent)))
        closed = dn.close_loops(mechanism, start)
        assert np.array_equal(closed[:, mechanism.independent], q[:, mechanism.independent])
        residuals = interpret(position_program(mechanism.tree, mechanism.constraints), q=closed)["phi"]
        assert np.abs(residuals).max() <= 1e-9 and np.abs(closed - q).max() <= 1e-8


def test_a_position_that_cannot_be_closed():
    mechanism = dn.parse_robot(four_bar(independent=(False, False, True)))
    with pytest.raises(dn.ClosureError, match="no closed position near the start: 'pin' stay open by"):
        dn.close_loops(mechanism, [0.0, 0.0, 3.1])
