"""Robots and mechanisms by GTSAM: the same trajectory as by our own elimination, and as by dense algebra."""

import sys

import dense_trajectory as dense
import numpy as np
import pytest
from robots import ROBOTS
from tolerances import OPTIMUM, SPREAD, error
from two_links import Swing

import dynamics_node as dn
from dynamics_node.trajectory import (
    Batch,
    FixedLag,
    Unobservable,
    estimate,
    estimation,
    invert,
    prior,
    simulate,
    vector,
)
from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.graph import TrajectoryGraph, weights_of
from dynamics_node.trajectory.graphs import forward_graph
from dynamics_node.trajectory.gtsam import GtsamBatch
from dynamics_node.trajectory.gtsam_lag import GtsamFixedLag
from dynamics_node.trajectory.planar import FOUR_BAR_START, four_bar
from dynamics_node.trajectory.systems import robot_system


@pytest.fixture
def gtsam():
    return pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")


def falling(name, coordinates="independent"):
    """Graph, Prior and weights of a robot that is let go."""
    if name == "four_bar":
        system, q = four_bar(), np.array(FOUR_BAR_START)
    else:
        system = robot_system(ROBOTS[name].model())
        q = np.linspace(0.3, -1.0, len(system.q.neutral))
    graph = forward_graph(system, coordinates=coordinates)
    weights = {weights_of(factor.name): 100.0 for factor in graph.weighted}
    return graph, prior(graph, {"q": q}, {"q": 1e-6, "qd": 1e-6}), {"dt": 2e-3, "tau": 0.1} | weights


def assert_same(steps, right):
    for variable in right.graph.variables:
        assert error(steps[variable.name].ravel(), right[variable.name].ravel()) <= OPTIMUM, variable.name


@pytest.mark.usefixtures("gtsam")
@pytest.mark.parametrize(
    ("name", "coordinates"),
    [("four_bar", "independent"), ("four_bar", "dependent"), ("ur5", "independent")],
)
def test_fixed_lag(name, coordinates):
    graph, start, told = falling(name, coordinates)
    ours = FixedLag(graph, 5, start, tolerance=1e-8)
    theirs = GtsamFixedLag(graph, 5, start, tolerance=1e-8)
    for _ in range(12):
        ours.append(**told)
        theirs.append(**told)
        assert_same(theirs.steps, ours.steps)
    assert error(theirs.covariance(), ours.covariance(), tail=3) <= SPREAD


@pytest.mark.usefixtures("gtsam")
@pytest.mark.parametrize("name", ["four_bar", "panda7"])
def test_batch(name):
    """From where nothing moves."""
    graph, start, told = falling(name)
    steps = graph.steps(24)
    for number, value in (start.values | told).items():
        steps[number][:] = value
    solver = GtsamBatch(graph)
    solution, ours = solver.solve(steps, start), Batch(graph).solve(steps, start)
    assert_same(solution.steps, ours.steps)
    assert solution.exact <= 1e-9 and dense.violation(solution.steps) <= 1e-9
    P = Batch(graph).covariance(ours.steps, start)
    assert error(solver.covariance(ours.steps, start), P, tail=3) <= SPREAD


@pytest.mark.usefixtures("gtsam")
def test_late_readings():
    """Written into an older row of the window they count when it is solved again."""
    x = vector("x", ["a"])
    read = Factor(name="read", residual=lambda x, y: x - y, rows=("a",), now=("x",), data={"y": (1,)})
    walk = Factor(name="walk", residual=lambda x, x_next: x_next - x, rows=("a",), now=("x",), after=("x",))
    graph = TrajectoryGraph((x,), (read, walk))
    start = prior(graph, {}, {"x": 1.0})
    lags = FixedLag(graph, 3, start), GtsamFixedLag(graph, 3, start)
    for lag in lags:
        for _ in range(4):
            lag.append(**{"dt": 0.1, "weights walk": 4.0})
        before = lag.steps["x"].copy()
        lag.steps["y"][1], lag.steps["weights read"][1] = 2.0, 9.0
        lag.solve()
        assert (lag.steps["x"] > before + 1.0).all()
    assert_same(lags[1].steps, lags[0].steps)


@pytest.mark.usefixtures("gtsam")
def test_what_nothing_tells_is_named():
    x = vector("x", ["a", "b"])
    read = Factor(name="read", residual=lambda x, y: x[:1] - y, rows=("a",), now=("x",), data={"y": (1,)})
    walk = Factor(name="walk", residual=lambda x, x_next: x_next - x, rows=x.names, now=("x",), after=("x",))
    graph = TrajectoryGraph((x,), (read, walk))
    steps = graph.steps(5)
    steps.weigh("read", 1.0)
    steps.weigh("walk", 1.0)
    with pytest.raises(Unobservable, match="x b"):
        GtsamBatch(graph).solve(steps, prior(graph, {}, {}))


def test_gtsam_absent_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gtsam", None)
    with pytest.raises(ImportError, match="pip install 'gtsam>=4.3'"):
        GtsamBatch(falling("four_bar")[0])


@pytest.mark.usefixtures("gtsam")
def test_problems_by_gtsam():
    """simulate and invert with backend='gtsam'."""
    start = np.array(FOUR_BAR_START)
    ours, theirs = (
        simulate(four_bar(), start, steps=20, dt=2e-3, window=3, backend=backend)
        for backend in ("auto", "gtsam")
    )
    assert error(theirs.q.ravel(), ours.q.ravel()) <= OPTIMUM
    time = np.linspace(0.0, 0.2, 12)
    ours, theirs = (
        invert(four_bar(), time, np.sin(time)[:, None], start=start, backend=backend)
        for backend in ("auto", "gtsam")
    )
    assert error(theirs.tau.ravel(), ours.tau.ravel()) <= OPTIMUM


@pytest.mark.usefixtures("gtsam")
@pytest.mark.parametrize("window", [5, None])
def test_estimate_by_gtsam(window, monkeypatch):
    """A Panda's motion and external torques, with standard deviations, of encoders, torques and two IMUs."""
    import estimated_arm as arm

    monkeypatch.setattr(estimation, "TOLERANCE", 1e-7)
    motion = arm.tracked(0.03)
    readings = arm.read(motion, np.random.default_rng(1))
    readings |= {"q": readings.pop("encoder"), "tau": readings.pop("torque")}
    time = arm.T * np.arange(len(motion.q))
    ours, theirs = (
        estimate(arm.arm(), time, readings, arm.IMUS, options=arm.OPTIONS, window=window, backend=backend)
        for backend in ("auto", "gtsam")
    )
    for name in ("q", "qd", "qdd", "push"):  # by dense algebra ours is the optimum to 1e-10, GTSAM's to 1e-7
        assert (np.abs(getattr(theirs, name) - getattr(ours, name)) <= 1e-5 * ours.std[name]).all()
    for name, std in ours.std.items():
        assert error(theirs.std[name].ravel(), std.ravel()) <= SPREAD


@pytest.mark.usefixtures("gtsam")
@pytest.mark.parametrize("torque_std", [1e-4, 1e-6])
def test_accurate_torques_by_gtsam(torque_std):
    """A recording of a simulation: its torques have no noise."""
    swing, time = Swing(), 0.004 * np.arange(6)
    readings = {"q": np.array([swing.state(t)[0] for t in time])}
    readings["tau"] = np.array([swing.torque(t) for t in time])
    options = dn.SmootherOptions(torque_std=torque_std)
    ours, theirs = (
        estimate(swing.model, time, readings, options=options, backend=backend)
        for backend in ("auto", "gtsam")
    )
    for name in ("q", "qd", "qdd", "push"):
        assert error(getattr(theirs, name).ravel(), getattr(ours, name).ravel()) <= OPTIMUM
    for name, std in ours.std.items():
        assert error(theirs.std[name].ravel(), std.ravel()) <= SPREAD
