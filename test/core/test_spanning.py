"""Rates of every joint of closed loops, gears and belts agree with the constraints and with differences of positions."""

import numpy as np
import pytest
from robots import BALL_LOOPS, GEARED, GEARS, LOOPS, closed_states, robot_of

import dynamics_node as dn
from dynamics_node.algorithms.constraint_equations import velocity_program
from dynamics_node.algorithms.rates import closure_matrix, spread_rates
from dynamics_node.robot.state_arrays import moved, tangent_map
from dynamics_node.symbolic import interpret

MOBILITY = {"four_bar": 1, "five_bar": 2, "tilted five_bar": 2, "geared_chain": 4, "belt_chain": 4, "belt_leg": 3, "differential": 2,
            "revolute": 1, "prismatic": 1, "universal": 2, "ball": 3, "planar": 3, "rod": 5}  # fmt: skip


@pytest.mark.parametrize("name", GEARED)
def test_gears_and_belts_have_no_coordinates(name):
    """Rotors are explicit joints without coordinates; each has a row of weights that agrees with its text."""
    robot = robot_of(name)
    assert robot.nq == robot.nv == MOBILITY[name] and not robot.constrained
    q, qd, qdd = closed_states(robot, 5)
    for values, of_all in zip((q, qd, qdd), dn.spanning(robot, q, qd, qdd), strict=True):
        at = dict(zip(robot.joint_map_names, of_all.T, strict=True))
        assert all(np.array_equal(at[name], values[:, k]) for k, name in enumerate(robot.q_names))
        for rotor, ratio, joints in GEARS[name]:
            assert np.allclose(at[rotor], ratio * sum(at[joint] for joint in joints), atol=1e-12)


@pytest.mark.parametrize("name", [*(name for name in LOOPS if name not in GEARED), *BALL_LOOPS])
def test_mobility_and_rates_of_closed_loops(name):
    robot = robot_of(name)
    q, qd, _ = closed_states(robot, reach=0.15 if name in BALL_LOOPS else 0.25)
    assert name in BALL_LOOPS or robot.nv == MOBILITY[name] == len(robot.v_names)
    for _, at in robot.quaternions:
        assert np.allclose(np.linalg.norm(q[:, at], axis=1), 1, atol=1e-14)
    G, program = closure_matrix(robot, q), velocity_program(robot.tree, robot.constraints)
    for k in range(len(q)):
        K = interpret(program, q=q[k], qd=np.zeros(robot.tree.nv))["K"]
        assert np.abs(K @ G[k]).max() <= 1e-9 * max(1.0, np.abs(K).max() * np.abs(G[k]).max())
    assert np.abs(q - q[0]).max() > 0.05


@pytest.mark.parametrize("name", [*LOOPS, *BALL_LOOPS])
def test_rates_agree_with_differences_of_positions(name):
    """G and g agree with differences of closed positions along a motion of constant rates."""
    robot = robot_of(name)
    q, qd, _ = closed_states(robot, 2, reach=0.15 if name in BALL_LOOPS else 0.25)
    own, step = robot.independent.tolist(), 1e-4
    rates, accelerations = spread_rates(robot, q, qd, 0 * qd)
    before, now, after = (dn.close_loops(robot, moved(robot.tree, q, own, s * step * qd)) for s in (-1, 0, 1))
    for k in range(2):
        assert np.allclose(
            (after - before)[k] / (2 * step), tangent_map(robot.tree, q[k]) @ rates[k], atol=1e-6
        )
        if not robot.quaternions:
            second = (after - 2 * now + before)[k] / step**2
            assert np.allclose(second, accelerations[k], atol=1e-3, rtol=1e-4)
