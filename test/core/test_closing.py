"""Closed positions: from distant starts, along a motion, and at the rate of a controller."""

import itertools
import pickle

import numpy as np
import pytest
from five_bars import flat_four_bar
from linkages import ladder, open_spatial, platform
from loop_oracle import LoopOracle
from mechanisms import joint, link, loop
from mechanisms import robot as robot_text
from robots import BALL_LOOPS, closed_states, robot_of
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar, four_bar
from dynamics_node.algorithms import continued, first_closed
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.robot.loops.assemblies import anywhere
from dynamics_node.robot.loops.equations import position_program
from dynamics_node.robot.loops.newton import closed_near, downhill
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret


@pytest.mark.parametrize(
    "name, backend",
    [
        *itertools.product(["four_bar", "five_bar", "differential", "ball"], ["c", "numpy"]),
        *((name, "c") for name in BALL_LOOPS),
    ],
)
def test_closing_follows_a_motion(name, backend):
    robot = robot_of(name)
    q, qd, qdd = closed_states(robot, 1, reach=0.15 if name in BALL_LOOPS else 0.25)
    closing = pickle.loads(pickle.dumps(dn.build_loop_solver(robot, backend)))
    independent, at = robot.independent.tolist(), q[0].copy()
    for _ in range(30):
        at = moved(robot.tree, at, independent, 0.004 * qd[0])
        at, condition = closing(at)
        assert np.abs(at - dn.close_loops(robot, at)).max() <= 1e-9
        assert closing.is_regular(at) and 1.0 <= condition < 1e6
    rates, accelerations, G = closing.spread(at, qd[0], qdd[0])
    expected, expected_accelerations = spread_rates(robot, at, qd[0], qdd[0])
    assert error(rates, expected) <= EXACT and error(accelerations, expected_accelerations) <= EXACT
    assert error(G @ qd[0], rates) <= EXACT
    far = closing.following(moved(robot.tree, at, independent, 0.2 * qd[0]), at)[0]
    for _, of_ball in robot.quaternions:
        assert np.linalg.norm(far[of_ball]) == pytest.approx(1, abs=1e-12)


def test_long_step_stays_on_its_branch():
    """Newton's method alone would leave the branch; the library divides a long step."""
    mechanism = dn.parse_robot(four_bar())
    start = dn.close_loops(mechanism, [0.4, 0.1, 1.0])
    goal = np.array([2.6, np.nan, np.nan])
    closed = start.copy()
    for crank in np.linspace(0.4, 2.6, 400):
        closed[0] = crank
        closed = dn.close_loops(mechanism, closed)
    assert np.allclose(continued(mechanism, start, np.nan_to_num(goal)), closed, atol=1e-9)


@pytest.mark.parametrize("branch, starts", [
    ("parallel", ([1, -1, 1], [1, -3, -3])),
    ("crossed", ([1, -1.25, -1.25], [1, -1.3, -1.3], [1, -1.5, -1.2])),
])  # fmt: skip
def test_positions_near_a_singular_one_are_closed_to_the_last_digits(branch, starts):
    """Beside a flat parallelogram, where two branches meet, a gap of 1e-10 leaves joints 1e-5 rad off. The
    acceleration is that of each branch from all starts."""
    robot = dn.parse_robot(flat_four_bar())
    forward = dn.build(robot, "forward_dynamics", backend="numpy")
    solver = dn.build_loop_solver(robot, backend="numpy")
    zero, one = np.zeros(1), np.ones(1)
    expected = forward(dn.close_loops(robot, 1e-2 * np.array(starts[0])), zero, one)
    for size, start in itertools.product((1e-3, 1e-4, 1e-5), starts):
        for q in (dn.close_loops(robot, size * np.array(start)), solver(size * np.array(start))[0]):
            assert error(forward(q, zero, one), expected) < 1e-5, (size, start)


def test_first_position_without_passive_joints():
    """From all joints at zero, a singular position of the five-bar."""
    mechanism = dn.parse_robot(five_bar())
    q = first_closed(mechanism, np.zeros(4))
    assert np.abs(q[mechanism.independent]).max() == 0.0
    assert np.abs(dn.close_loops(mechanism, q) - q).max() <= 1e-9


def test_loops_close_from_many_starts():
    """100 starts near reachable positions: residuals are below 1e-9 and independent joints do not move."""
    for name, reach in (("five_bar", 0.4), ("four_bar", 0.4), ("differential", 0.3), ("ball", 0.1)):
        mechanism = robot_of(name)
        q, _, _ = closed_states(mechanism, 100, reach=reach)
        dependent = [v for v in range(mechanism.tree.nv) if v not in mechanism.independent]
        start = q.copy()
        start[:, dependent] += np.random.default_rng(1).uniform(-reach / 2, reach / 2, (100, len(dependent)))
        closed = dn.close_loops(mechanism, start)
        assert np.array_equal(closed[:, mechanism.independent], q[:, mechanism.independent])
        residuals = interpret(position_program(mechanism.tree, mechanism.constraints), q=closed)["phi"]
        assert np.abs(residuals).max() <= 1e-9 and np.abs(closed - q).max() <= 1e-8


@pytest.mark.parametrize("make, loops", [(platform, 3), (platform, 4), (ladder, 5), (open_spatial, 2)])
def test_loops_drawn_open_are_closed(make, loops):
    """Several loops with frames far apart at zero. campaigns/open_loops.py tries others."""
    linkage = make(np.random.default_rng(loops), loops)
    robot = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    oracle = LoopOracle(linkage.text, robot)
    assert max(map(oracle.gap, generic_positions(robot))) <= 1e-9


def test_damped_steps_close_more_starts_than_newtons():
    linkage = open_spatial(np.random.default_rng(2), 2)
    robot = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    (cluster,) = (own for own in robot.clusters if own.constraints)
    problem = robot.tree, cluster.constraints, [*cluster.independent, *cluster.dependent]
    starts = anywhere(robot.tree, np.random.default_rng(3), np.pi)
    damped, newton = (len(closed_near(*problem, q)) for q in (downhill(*problem, starts), starts))
    assert len(starts) >= damped > newton


def test_impossible_loop_is_named():
    """The first loop closes without the second, which is too short."""
    parents = {"b": "a", "c": "b", "d": "a", "e": "d"}
    bodies = (part for k, up in parents.items() for part in (link(k, 1, 1.0), joint(f"j{k}", up, k, "1 0 0")))
    ties = (
        loop("closes", "ball", "c", "1 0 0", "a", "1.5 0 0"),
        loop("far", "ball", "e", "1 0 0", "c", "0 9 0"),
    )
    text = robot_text(link("a"), *bodies, *ties)
    with pytest.raises(dn.ModelError, match="no closed position.*'far' is open by"):
        dn.parse_robot(text)


def test_unreachable_position_raises():
    mechanism = dn.parse_robot(four_bar(independent=(False, False, True)))
    with pytest.raises(dn.ClosureError, match="'pin'.*open"):
        dn.close_loops(mechanism, [0.0, 0.0, 3.1])


@pytest.mark.parametrize("name, backend", [("five_bar", "numpy"), ("ball", "numpy"), ("five_bar", "c")])
def test_quantities_of_open_loops_raise(name, backend):
    robot = robot_of(name)
    q = closed_states(robot, 1, reach=0.03)[0][0] + 0.01
    M = dn.build(robot, "mass_matrix", backend=backend)
    with pytest.raises(dn.SolutionError, match=f"{robot.constraints[0].name!r}.*open"):
        M(q)
    assert np.isnan(M(q, errors="nan")).all()


def test_errors_of_closing_name_shape_and_remedy():
    robot = dn.parse_robot(five_bar())
    with pytest.raises(ValueError, match=r"^q .*\(\.\.\., 4\), not \(2,\); its entries: j1, "):
        dn.close_loops(robot, np.zeros(2))
    with pytest.raises(dn.ClosureError, match="'j5' is open by .*; .* dn.first_closed"):
        dn.close_loops(robot, [3.1, 0.0, 0.0, 0.0])
