"""Readings, priors and graphs of trajectories: values against Pinocchio and by hand, and errors."""

import numpy as np
import paper_problems
import pytest
from oracle import pin
from robots import ROBOTS, random_states
from sensor_truth import Truth
from tolerances import EXACT, error
from trajectory_cases import position, rates, robot_of, system_of

from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import interpret, trace
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph, inverse_graph
from dynamics_node.trajectory.robot_factors import (
    accelerometer,
    bias_of,
    encoder,
    gyro,
    imu,
    prior_factor,
    torque,
    velocity_reading,
)

POSE = {"xyz": (0.1, -0.2, 0.3), "rpy": (0.3, 0.5, -0.7), "std": 1.0}
MOVING = ("panda", "solo12")


def residual(factor, **given):
    shapes = {name: np.shape(value) for name, value in given.items()}
    return interpret(trace(lambda **x: {"r": factor.residual(**x)}, shapes), **given)["r"]


@pytest.mark.parametrize("name", MOVING)
def test_sensors_on_links_agree_with_pinocchio(name):
    robot = robot_of(name)
    q, qd, qdd, _ = (x[0] for x in random_states(robot, 1, seed=3))
    link = next(n for n, frame in robot.frames.items() if frame.body == robot.nbodies - 1)
    truth = Truth(ROBOTS[name], robot, q, qd, qdd)
    state, bias, reading = {"q": q, "qd": qd}, 0.1 * np.arange(6), np.arange(6.0)
    turning, proper = truth.reading(Gyro(link, **POSE)), truth.reading(Accelerometer(link, **POSE))
    factor = gyro(robot, Gyro(link, **POSE, name="g"))
    assert error(residual(factor, **state, **{"reading g": np.zeros(3)}), turning) <= EXACT
    factor = accelerometer(robot, Accelerometer(link, **POSE, name="a"))
    assert error(residual(factor, **state, qdd=qdd, **{"reading a": np.zeros(3)}), proper) <= EXACT
    factor = imu(robot, Imu(link, **POSE, name="i"), bias=True)
    residuals = residual(factor, **state, qdd=qdd, **{"reading i": reading, "bias i": bias})
    assert error(residuals, np.concatenate([turning, proper]) + bias - reading) <= EXACT


def test_sensors_on_links_of_loops_agree_with_the_tree():
    """Readings on links of a loop equal those on the tree at the same rates."""
    random, robot = np.random.default_rng(6), robot_of("differential")
    q = position("differential", random)
    qd, qdd, _ = rates("differential", q, random)
    tree = robot.tree
    link = next(n for n, frame in tree.frames.items() if frame.body == tree.nbodies - 1)
    state = {"q": q, "qd": qd, "qdd": qdd, "reading i": np.zeros(6)}
    residuals = residual(imu(robot, Imu(link, **POSE, name="i")), **state)
    assert error(residuals, residual(imu(tree, Imu(link, **POSE, name="i")), **state)) <= EXACT


def test_sensor_on_a_fixed_link_is_rejected():
    robot = robot_of("panda7")
    with pytest.raises(ValueError, match=f"'{robot.base_link}'.*fixed"):
        gyro(robot, Gyro(robot.base_link, std=1.0))


def test_encoders_read_joints_with_one_coordinate():
    random, system = np.random.default_rng(1), system_of("balls")
    q = sample_positions(robot_of("balls"), 1, random)[0]
    names = [joint.name for joint in robot_of("balls").independent_joints if joint.type.is_scalar]
    factor = encoder(system, bias=True)
    assert list(factor.rows) == names and bias_of(factor).names == factor.rows
    at = [joint.q.start for joint in robot_of("balls").independent_joints if joint.type.is_scalar]
    reading, bias = random.normal(size=(2, len(names)))
    residuals = residual(factor, q=q, **{"reading encoder": reading, "bias encoder": bias})
    assert np.allclose(residuals, q[at] + bias - reading, atol=1e-15)
    with pytest.raises(ValueError, match="'j1.angular.y'.*position"):
        encoder(system, [1])


def test_rates_and_torques_are_read_directly():
    system, random = system_of("differential"), np.random.default_rng(2)
    qd, reading = random.normal(size=(2, len(system.directions)))
    residuals = residual(velocity_reading(system, [3, 1]), qd=qd, **{"reading velocity": reading[:2]})
    assert np.allclose(residuals, qd[[3, 1]] - reading[:2], atol=1e-15)
    residuals = residual(torque(system), tau=qd[:2], **{"reading torque": reading[:2]})
    assert np.allclose(residuals, qd[:2] - reading[:2], atol=1e-15)
    assert bias_of(torque(system)) is None


def test_priors_measure_along_directions():
    """For a floating base: the rotation in body axes, then the translation, by Pinocchio."""
    x = system_of("solo12").q
    start = sample_positions(robot_of("solo12"), 1, np.random.default_rng(3))[0]
    step = 1e-4 * np.random.default_rng(4).normal(size=x.tangent)
    residuals = residual(prior_factor(x), q=x.moved(start, step), **{"prior q": start})
    assert np.allclose(residuals, step, atol=1e-15)
    free = pin.SE3(pin.Quaternion(start[3:7]).matrix(), start[:3])
    target = x.moved(start, step)
    motion = pin.log6(free.inverse() * pin.SE3(pin.Quaternion(target[3:7]).matrix(), target[:3]))
    assert np.allclose(
        residuals[:6], [*motion.angular, *motion.linear], atol=3e-8
    )  # equal up to second order


@pytest.mark.parametrize("name", ["paper", "panda7", "floating balls", "differential", "spherical"])
def test_free_variables_of_graphs(name):
    system = system_of(name)
    nv = len(system.independent)
    forward = forward_graph(system)
    assert [forward.column_names[k] for k in forward.free] == [
        f"{x} {system.directions[k]}" for x in ("q", "qd") for k in system.independent
    ]
    assert len(inverse_graph(system).free) == 3 * nv
    graph = estimation_graph(system, [velocity_reading(system, bias=True), torque(system)])
    assert len(graph.free) == 2 * nv + 2 * nv + len(system.directions)
    assert "tau" not in graph.data and "tau" in forward.data and forward.data["tau"] == (nv,)
    assert len(estimation_graph(system, [], external_torque=False).free) == 2 * nv
    if name == "paper":
        soft = paper_problems.forward_graph(system, "dependent", soft=True)
        assert len(soft.free) == len(system.directions) + 2 * nv
        stages = {1: {"q"}, 2: {"q", "qd", "qdd"}, 4: {"q", "qd", "qdd", "tau"}}
        for stage, names in stages.items():
            assert set(paper_problems.stage_graph(system, stage).columns) == names
