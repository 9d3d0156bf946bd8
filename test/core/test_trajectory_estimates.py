"""Estimation graphs with exact readings reproduce the truth."""

import numpy as np
import pytest
from trajectory_cases import robot_of, system_of

import dynamics_node as dn
from dynamics_node.robot.sensors import Accelerometer, Gyro
from dynamics_node.symbolic import interpret, trace
from dynamics_node.trajectory import BatchSolver, FixedLag, estimation_graph, forward_graph, prior
from dynamics_node.trajectory.robot_factors import accelerometer, encoder, gyro, torque
from dynamics_node.trajectory.trajectory_graph import weights_of

DT, COUNT = 2e-3, 60
PUSH = np.array([0.02, -0.01])
BIAS = np.array([0.1, -0.2, 0.05])
EXACT_VARIANCE = 1e-6


@pytest.fixture(scope="module")
def truth():
    """Steps of a differential under PUSH, without motor torques."""
    robot, system = robot_of("differential"), system_of("differential")
    start = dn.close_loops(robot, np.array([0.7, 0.1, 0.7, 0.7]))
    graph = forward_graph(system)
    lag = FixedLag(graph, COUNT, prior(graph, {"q": start}, {"q": 1e-10, "qd": 1e-10}))
    weights = {weights_of(f.name): np.full(len(f.rows), 1e4) for f in graph.weighted}
    for _ in range(COUNT):
        lag.append(dt=DT, tau=PUSH, **weights)
    return {name: lag.steps[name].copy() for name in ("q", "qd", "qdd")}


def predicted(factor, truth):
    """Readings (steps, rows) without noise and bias."""
    shapes = {name: truth[name].shape[1:] for name in factor.now if name in truth}
    blank = {name: np.zeros(shape) for name, shape in factor.data.items()}
    blank |= {name: np.zeros(len(factor.rows)) for name in factor.now if name not in truth}
    program = trace(lambda **x: {"r": factor.residual(**x, **blank)}, shapes)
    return interpret(program, **{name: truth[name] for name in shapes})["r"]


def readings(name):
    robot = robot_of(name)
    at = {"link": "plate", "xyz": (0.1, 0.0, 0.0), "rpy": (0.3, 0.0, 0.1), "std": 1.0}
    factors = [encoder(system_of(name)), gyro(robot, Gyro(**at), bias=True)]
    return [*factors, accelerometer(robot, Accelerometer(**at))]


@pytest.mark.parametrize("measured", [False, True], ids=["commanded", "measured torque"])
def test_exact_readings_identify_pushes_and_biases(truth, measured):
    system = system_of("differential")
    sensors = [*readings("differential"), *([torque(system)] if measured else [])]
    graph = estimation_graph(system, sensors)
    steps = graph.steps(COUNT)
    steps["dt"][:] = DT
    for factor in graph.weighted:
        steps.weigh(factor.name, EXACT_VARIANCE)
    for factor in sensors[:3]:
        steps[f"reading {factor.name}"][:] = predicted(factor, truth)
    steps["reading plate gyro"][:] += BIAS
    steps["q"][:] = truth["q"]
    weak = {x.name: 1e3 for x in graph.variables}
    estimate = BatchSolver(graph).solve(steps, prior(graph, {"q": truth["q"][0]}, weak)).steps
    assert np.abs(estimate["external_torque"] - PUSH).max() <= 1e-6
    assert np.abs(estimate["bias plate gyro"] - BIAS).max() <= 1e-6
    for name in truth:
        assert np.abs(estimate[name] - truth[name]).max() <= 1e-5 * max(1.0, np.abs(truth[name]).max())
