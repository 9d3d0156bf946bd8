"""Jacobians of every factor of a trajectory, against complex steps, over robots of every kind."""

import numpy as np
import pytest
from trajectory_cases import MECHANISMS, PLANAR, TREES, position, robot_of, system_of

from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu
from dynamics_node.symbolic import interpret
from dynamics_node.trajectory import factor_program
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph, inverse_graph
from dynamics_node.trajectory.robot_factors import accelerometer, encoder, gyro, imu, torque, velocity_reading

STEP = 1e-30
LARGE = {"solo12", "quadruped", "panda", "floating balls"}  # of whose joints and loops smaller ones have all
SYSTEMS = tuple(name for name in (*PLANAR, *TREES, *MECHANISMS) if name not in LARGE)
SMALL = (*PLANAR, "double_pendulum", "balls", "four_bar", "differential")  # where rules are tried as well


def graphs(name):
    """Together they have every factor."""
    system = system_of(name)
    yield estimation_graph(system, readings(name))
    yield inverse_graph(system, 3)
    if name in SMALL:
        yield inverse_graph(system)
        yield forward_graph(system)
        yield forward_graph(system, "euler", "dependent", soft=True)
        yield forward_graph(system, "simpson")


def readings(name):
    system = system_of(name)
    found = [torque(system, bias=True), velocity_reading(system)]
    if system.scalars:
        found.append(encoder(system, bias=True))
    if name not in PLANAR:
        robot = robot_of(name)
        at = {"link": link_of(robot), "xyz": (0.1, -0.2, 0.3), "rpy": (0.3, 0.5, -0.7), "std": 1.0}
        found += [gyro(robot, Gyro(**at), bias=True), accelerometer(robot, Accelerometer(**at))]
        found.append(imu(robot, Imu(**at), bias=True))
    return found


def link_of(robot):
    """That of the last body."""
    tree = robot.tree
    return next(name for name, frame in tree.frames.items() if frame.body == tree.nbodies - 1)


def arguments(name, graph, factor, random):
    known = {variable.name: variable for variable in graph.variables}
    now = {x.name: random.normal(size=x.size) for x in graph.variables}
    now["q"] = position(name, random)
    after = {x.name: x.moved(now[x.name], 0.1 * random.normal(size=x.tangent)) for x in graph.variables}
    found = {argument: (after if late else now)[own] for own, late, argument in factor.variables}
    found |= {name: random.normal(size=shape) for name, shape in factor.data.items()}
    for own in known.values():
        if f"prior {own.name}" in factor.data:
            found[f"prior {own.name}"] = own.moved(now[own.name], random.normal(size=own.tangent))
    if "dt" in found:
        found["dt"] = np.array([0.01])
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_jacobians_against_complex_steps(name):
    """Of every Program once: factors of other steps share them."""
    random, tried = np.random.default_rng(5), set()
    for graph in graphs(name):
        known = {variable.name: variable for variable in graph.variables}
        for factor in graph.factors:
            program = factor_program(factor, graph.variables)
            if program.digest() in tried:
                continue
            tried.add(program.digest())
            given = arguments(name, graph, factor, random)
            found = interpret(program, **given)
            for own, _, argument in factor.variables:
                stepped = [
                    known[own].moved(given[argument], 1j * step) for step in STEP * np.eye(known[own].tangent)
                ]
                by = interpret(program, **{**given, argument: np.array(stepped)})["residual"].imag.T / STEP
                J = found[f"by {argument}"]
                size = max(1.0, np.abs(by).max(initial=0.0))
                assert np.abs(J - by).max(initial=0.0) <= 1e-10 * size, (factor.name, argument)
