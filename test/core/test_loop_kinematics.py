"""Rates of closed loops, gears and belts: those that the constraints allow, and those that follow from positions."""

import numpy as np
import pytest
from closed_loops import ALL, GEARED, GEARS, mechanism_of, spread, states

import dynamics_node as dn
from dynamics_node.algorithms.constraint_equations import velocity_program
from dynamics_node.symbolic import interpret

MOBILITY = {"four_bar": 1, "five_bar": 2, "tilted five_bar": 2, "geared_chain": 4, "belt_chain": 4, "belt_leg": 3, "differential": 2,
            "revolute": 1, "prismatic": 1, "universal": 2, "ball": 3, "planar": 3, "rod": 5}  # fmt: skip


@pytest.mark.parametrize("name", GEARED)
def test_gears_and_belts_have_no_coordinates(name):
    """Rotors, whose positions follow from joints, are in no vector; each has a row of weights, and what its text says
    holds."""
    robot = mechanism_of(name)
    assert robot.nq == robot.nv == MOBILITY[name] and not robot.constrained
    q, qd, qdd = states(robot, 5)
    for values, of_all in zip((q, qd, qdd), dn.spanning(robot, q, qd, qdd), strict=True):
        at = dict(zip(robot.joint_map_names, of_all.T, strict=True))
        assert all(np.array_equal(at[name], values[:, k]) for k, name in enumerate(robot.q_names))
        for rotor, ratio, joints in GEARS[name]:
            assert np.allclose(at[rotor], ratio * sum(at[joint] for joint in joints), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if name not in GEARED])
def test_mobility_and_closed_positions(name):
    mechanism = mechanism_of(name)
    assert mechanism.nv == MOBILITY[name] == len(mechanism.v_names)
    q, yd, _ = states(mechanism)
    constraints = mechanism.constraints
    program = velocity_program(mechanism.tree, constraints)
    for k in range(len(q)):
        G, _ = spread(mechanism, q[k], yd[k])
        K = interpret(program, q=q[k], qd=np.zeros(mechanism.tree.nv))["K"]
        assert np.abs(K @ G).max() <= 1e-9 * max(1.0, np.abs(K).max() * np.abs(G).max())


@pytest.mark.parametrize("name", ALL)
def test_rates_follow_from_positions(name):
    """G and g against positions closed a little earlier and later on a motion of constant yd."""
    mechanism = mechanism_of(name)
    q, yd, _ = states(mechanism, 2)
    independent = [mechanism.tree.independent_joints[v].q.start for v in mechanism.independent]
    step = 1e-4
    for k in range(2):
        moved = []
        for s in (-1, 0, 1):
            there = q[k].copy()
            there[independent] += s * step * yd[k]
            moved.append(dn.close_loops(mechanism, there))
        before, now, after = moved
        G, g = spread(mechanism, q[k], yd[k])
        assert np.allclose((after - before) / (2 * step), G @ yd[k], atol=1e-6)
        assert np.allclose((after - 2 * now + before) / step**2, g, atol=1e-3, rtol=1e-4)
