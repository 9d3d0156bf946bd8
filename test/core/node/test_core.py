"""The Core of the node: torques, stale input and snapshots."""

from dataclasses import replace

import numpy as np
import pytest
from robots import ROBOTS

from dynamics_node.functions import build, build_for_service
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import NoOutput
from dynamics_node.robot import forward_dynamics, inverse_dynamics

SETTINGS = Settings()
MS = 1_000_000  # ns


@pytest.fixture(scope="module")
def robot():
    model = ROBOTS["panda7"].model()
    inverse = build_for_service(model, inverse_dynamics(model), backend="numpy")
    forward = build_for_service(model, forward_dynamics(model), backend="numpy")
    quantities = [
        build(model, name, backend="numpy", runtime_parameters=["inertia"])
        for name in ("mass_matrix", "nonlinear_effects")
    ]
    return ServedRobot(model, inverse, inverse, forward, *quantities, {})


def core(robot, **settings):
    made = Core(robot, replace(SETTINGS, **settings))
    names = made.joints.names
    made.joints.update(names, [0.1] * len(names), [0.0] * len(names), (), 1, 0)
    return made


def test_input_that_becomes_stale_during_a_solve_raises(robot):
    served = core(robot)
    assert np.isfinite(served.solve(lambda: 0, 199 * MS).tau).all()
    served.require_fresh(200 * MS)
    with pytest.raises(NoOutput, match="older.*panda_joint1") as caught:
        served.require_fresh(201 * MS)
    assert caught.value.stale
    core(robot, state_source="reference").require_fresh(201 * MS)


def test_a_core_with_the_snapshot_computes_the_same(robot):
    """The process of the services copies the Core of the node."""
    served, other = core(robot), Core(robot, SETTINGS)
    served.set_payload("panda_hand", 1.5, (0.0, 0.0, 0.1), ((0.01, 0, 0), (0, 0.01, 0), (0, 0, 0.01)))
    other.follow(served.snapshot())
    assert np.array_equal(other.solve(lambda: 0, 0).tau, served.solve(lambda: 0, 0).tau)
    served.set_payload("panda_hand", 0, (), ())
    other.follow(served.snapshot())
    assert other.payloads == {}
    assert np.array_equal(other.solve(lambda: 0, 0).tau, served.solve(lambda: 0, 0).tau)


def test_a_gravity_that_overflows_gives_no_output(robot):
    """Gravity torques that overflow raise NoOutput."""
    served = core(robot, on_stale="gravity", gravity=(-1.7e308, 0.0, -1.7e308))
    with pytest.raises(NoOutput):
        served.gravity_torques()
