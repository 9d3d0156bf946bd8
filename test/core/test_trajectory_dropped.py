"""Robots that are dropped: the trajectory's factors against forward dynamics that are integrated by the same rule."""

import numpy as np
import pytest
from trajectory_cases import robot_of, system_of

import dynamics_node as dn
from dynamics_node.loops import Mechanism
from dynamics_node.trajectory import FixedLag, forward_graph, prior
from dynamics_node.trajectory.graph import weights_of

DT = 1e-3
CASES = {"panda7": 2.0, "differential": 1.0}  # s
STARTS = {
    "panda7": np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8]),
    "differential": np.array([0.7, 0.1, 0.7, 0.7]),  # swings without reaching where cranks and rods align
}


def start_of(name):
    return closed(robot_of(name), STARTS[name])


def closed(robot, q):
    return dn.close_loops(robot, q) if isinstance(robot, Mechanism) else q


def integrated(name, count):
    """Positions (count, nq): the implicit rule by fixed-point iterations, loops closed."""
    robot = robot_of(name)
    forward = dn.build(robot, dn.forward_dynamics(robot))
    own = list(system_of(name).independent)
    q, tau = start_of(name), np.zeros(robot.nv)
    qd, found = np.zeros(robot.nv), [q]
    qdd = forward(q, qd, tau)
    for _ in range(count - 1):
        to, rate, change = q, qd, qdd
        for _ in range(50):
            before = rate
            rate = qd + 0.5 * DT * (qdd + change)
            to = np.array(to)
            to[own] = q[own] + 0.5 * DT * (qd + rate)
            to = closed(robot, to)
            change = forward(to, rate, tau)
            if np.abs(rate - before).max() < 1e-13:
                break
        q, qd, qdd = to, rate, change
        found.append(q)
    return np.array(found)


def simulated(name, count):
    graph = forward_graph(system_of(name))
    known = prior(graph, {"q": start_of(name)}, {"q": 1e-10, "qd": 1e-10})
    lag = FixedLag(graph, 2, known, tolerance=1e-9)
    weights = {weights_of(f.name): np.full(len(f.rows), 1e4) for f in graph.weighted}
    found = []
    for _ in range(count):
        lag.append(dt=DT, tau=0.0, **weights)
        found.append(lag.steps["q"][len(lag) - 1].copy())
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_dropped(name):
    count = round(CASES[name] / DT) + 1
    truth = integrated(name, count)
    assert np.abs(truth - truth[0]).max() > 0.3
    assert np.abs(simulated(name, count) - truth).max() <= 1e-6
