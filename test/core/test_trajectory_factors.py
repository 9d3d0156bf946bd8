"""Jacobians of every trajectory factor against complex steps, for robots of every kind."""

import numpy as np
import paper_problems
import pytest
from trajectory_cases import MECHANISMS, PLANAR, TREES, position, robot_of, system_of

from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu
from dynamics_node.symbolic import interpret
from dynamics_node.trajectory import factor_program
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph, inverse_graph
from dynamics_node.trajectory.robot_factors import accelerometer, encoder, gyro, imu, torque, velocity_reading

STEP = 1e-30
LARGE = {
    "solo12",
    "quadruped",
    "panda",
    "floating balls",
    "planar",
    "prismatic",
}  # smaller robots cover their joints and loops
SYSTEMS = tuple(name for name in (*PLANAR, *TREES, *MECHANISMS) if name not in LARGE)


def graphs(name):
    """Graphs that together have every factor."""
    system = system_of(name)
    yield estimation_graph(system, readings(name))
    yield inverse_graph(system)
    yield forward_graph(system)
    if name in PLANAR:
        yield paper_problems.forward_graph(system, "dependent", soft=True)


def readings(name):
    system = system_of(name)
    factors = [torque(system, bias=True), velocity_reading(system)]
    if system.scalars:
        factors.append(encoder(system, bias=True))
    if name not in PLANAR:
        robot = robot_of(name)
        at = {"link": link_of(robot), "xyz": (0.1, -0.2, 0.3), "rpy": (0.3, 0.5, -0.7), "std": 1.0}
        factors += [gyro(robot, Gyro(**at), bias=True), accelerometer(robot, Accelerometer(**at))]
        factors.append(imu(robot, Imu(**at), bias=True))
    return factors


def link_of(robot):
    """The link of the last body."""
    tree = robot.tree
    return next(name for name, frame in tree.frames.items() if frame.body == tree.nbodies - 1)


def arguments(name, graph, factor, random):
    known = {variable.name: variable for variable in graph.variables}
    now = {x.name: random.normal(size=x.size) for x in graph.variables}
    now["q"] = position(name, random)
    after = {x.name: x.moved(now[x.name], 0.1 * random.normal(size=x.tangent)) for x in graph.variables}
    values = {argument: (after if late else now)[own] for own, late, argument in factor.variables}
    values |= {name: random.normal(size=shape) for name, shape in factor.data.items()}
    for own in known.values():
        if f"prior {own.name}" in factor.data:
            values[f"prior {own.name}"] = own.moved(now[own.name], random.normal(size=own.tangent))
    if "dt" in values:
        values["dt"] = np.array([0.01])
    return values


@pytest.mark.parametrize("name", SYSTEMS)
def test_jacobians_agree_with_complex_steps(name):
    """Every Program is checked once: factors of several graphs share them."""
    random, checked = np.random.default_rng(5), set()
    for graph in graphs(name):
        known = {variable.name: variable for variable in graph.variables}
        for factor in graph.factors:
            program = factor_program(factor, graph.variables)
            if program.digest() in checked:
                continue
            checked.add(program.digest())
            given = arguments(name, graph, factor, random)
            results = interpret(program, **given)
            for own, _, argument in factor.variables:
                stepped = [
                    known[own].moved(given[argument], 1j * step) for step in STEP * np.eye(known[own].tangent)
                ]
                by = interpret(program, **{**given, argument: np.array(stepped)})["residual"].imag.T / STEP
                J = results[f"by {argument}"]
                size = max(1.0, np.abs(by).max(initial=0.0))
                assert np.abs(J - by).max(initial=0.0) <= 1e-10 * size, (factor.name, argument)
