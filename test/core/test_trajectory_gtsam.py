"""Trajectories as factor graphs of GTSAM: its optimizers converge to our solutions. At these, its elimination with exact
factors as constraints gives zero steps and the same covariances."""

import sys

import numpy as np
import pytest
from four_bar import FOUR_BAR_START, four_bar
from paper_problems import forward_graph, inverse_trajectory
from robots import ROBOTS
from tolerances import OPTIMUM, SPREAD, error
from trajectories import CASES, chain
from two_links import Swing

import dynamics_node as dn
from dynamics_node import trajectory
from dynamics_node.trajectory import (
    BatchSolver,
    FixedLag,
    Loss,
    from_gtsam,
    gtsam_key,
    prior,
    smooth,
    to_gtsam,
    vector,
)
from dynamics_node.trajectory.factor import TrajectoryFactor
from dynamics_node.trajectory.joint_smoother import known_start
from dynamics_node.trajectory.systems import robot_system
from dynamics_node.trajectory.trajectory_graph import TrajectoryGraph, weights_of

CONVERGED = 1e-5  # size of a Gauss-Newton step relative to the standard deviation of its direction


@pytest.fixture
def gtsam():
    return pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")


def released(name):
    """Steps and Prior after release, initialized at rest."""
    if name in ("independent", "dependent"):
        graph, q = forward_graph(four_bar(), name), np.array(FOUR_BAR_START)
    else:
        graph = trajectory.forward_graph(robot_system(ROBOTS[name].model()))
        q = np.linspace(0.3, -1.0, graph.variables[0].size)
    start = prior(graph, {"q": q}, {"q": 1e-6, "qd": 1e-6})
    steps = graph.steps(16)
    weights = {weights_of(factor.name): 100.0 for factor in graph.weighted}
    for number, value in (start.values | {"dt": 2e-3, "tau": 0.1} | weights).items():
        steps[number][:] = value
    return steps, start


def assert_converged(gtsam, steps, start, covariance):
    """A Gauss-Newton step of GTSAM is negligible; covariance (count, columns, columns)."""
    gtsam_graph, values = to_gtsam(steps, start, backend="numpy")
    graph, count, linear = steps.graph, len(steps), gtsam_graph.linearize(values)
    determined = {name for factor in graph.exact for name, _ in factor.determines}
    names = sorted((v.name for v in graph.variables), key=lambda name: name not in determined)
    order = gtsam.Ordering([gtsam_key(graph, name, k) for k in range(count) for name in names])
    change = linear.eliminateSequential(order, gtsam.EliminateQR).optimize()
    for k, P in enumerate(covariance):
        std = np.sqrt(np.diag(P))
        for variable in graph.variables:
            d, own = change.at(gtsam_key(graph, variable.name, k)), std[graph.columns[variable.name]]
            assert (np.abs(d) <= CONVERGED * own + 1e-12).all(), f"{variable.name} at step {k}"
    for k in (0, count // 2, count - 1):
        keys = [gtsam_key(graph, name, k) for name in names]
        assert error(marginal(gtsam, linear, graph, names, keys), covariance[k], tail=2) <= SPREAD


def marginal(gtsam, linear, graph, names, keys):
    """(columns, columns): covariance of a step. gtsam.Marginals inverts information, which is infinite with constraints;
    the conditionals R x = d - S parents + noise give the root of the covariance."""
    net = linear.marginal(keys, gtsam.EliminateQR).eliminateSequential(
        gtsam.Ordering(keys), gtsam.EliminateQR
    )
    columns = {key: graph.columns[name] for key, name in zip(keys, names, strict=True)}
    root = np.zeros((len(graph.column_names),) * 2)
    for conditional in map(net.at, reversed(range(net.size()))):
        own, *parents = (columns[key] for key in list(conditional.keys()))
        noise = np.zeros((own.stop - own.start, len(root)))
        noise[:, own] = np.diag(conditional.get_model().sigmas())
        if parents:
            noise -= conditional.S() @ np.vstack([root[parent] for parent in parents])
        root[own] = np.linalg.solve(conditional.R(), noise)
    return root @ root.T


@pytest.mark.parametrize("name", CASES)
def test_optimum_agrees_with_gtsam(gtsam, name):
    steps, start = CASES[name]()
    solver = BatchSolver(steps.graph, "numpy")
    solution = solver.solve(steps, start).steps
    assert_converged(gtsam, solution, start, solver.covariance(solution, start))


@pytest.mark.parametrize("name", ["independent", "dependent", "ur5", "panda7"])
def test_motion_of_released_robots_agrees_with_gtsam(gtsam, name):
    """Of the paper's four-bar in two kinds of coordinates, and of robots."""
    steps, start = released(name)
    solver = BatchSolver(steps.graph, "numpy")
    solution = solver.solve(steps, start).steps
    assert_converged(gtsam, solution, start, solver.covariance(solution, start))


@pytest.mark.parametrize("name", ["chain", "pendulum", "ball"])
def test_levenberg_marquardt_finds_the_same_optimum(gtsam, name):
    """Cases without exact factors, which GTSAM's optimizers satisfy only approximately."""
    steps, start = CASES[name]()
    ours = BatchSolver(steps.graph, "numpy").solve(steps, start)
    params = gtsam.LevenbergMarquardtParams()
    params.setMaxIterations(100)
    params.setRelativeErrorTol(1e-15)
    params.setAbsoluteErrorTol(1e-15)
    graph, values = to_gtsam(steps, start, backend="numpy")
    assert graph.size() == 1 + sum(len(steps) - bool(factor.after) for factor in steps.graph.factors)
    best = gtsam.LevenbergMarquardtOptimizer(graph, values, params).optimize()
    theirs = from_gtsam(best, steps)
    for variable in steps.graph.variables:
        assert error(theirs[variable.name].ravel(), ours.steps[variable.name].ravel()) <= 1e-6, variable.name


def test_exact_factors_may_be_soft(gtsam):
    """GTSAM's optimum agrees up to the softness of exact factors."""
    steps, start = CASES["exact"]()
    ours = BatchSolver(steps.graph, "numpy").solve(steps, start)
    params = gtsam.LevenbergMarquardtParams()
    params.setLinearSolverType("MULTIFRONTAL_QR")
    graph, values = to_gtsam(steps, start, softness=1e-4, backend="numpy")
    theirs = from_gtsam(gtsam.LevenbergMarquardtOptimizer(graph, values, params).optimize(), steps)
    assert np.abs(theirs["q"] - ours.steps["q"]).max() <= 1e-3


def test_fixed_lag_agrees_with_a_batch(gtsam):
    """For a linear chain marginalization loses nothing."""
    steps, start = chain()
    lag = FixedLag(steps.graph, 4, start, "numpy")
    numbers = [*steps.graph.data, *(name for name in steps.graph.row if name.startswith("weights "))]
    for k in range(len(steps)):
        lag.append(**{name: steps[name][k] for name in numbers})
    graph, values = to_gtsam(steps, start, backend="numpy")
    theirs = from_gtsam(gtsam.GaussNewtonOptimizer(graph, values).optimize(), steps)
    for name in ("p", "v"):
        assert error(lag.steps[name].ravel(), theirs[name][-4:].ravel()) <= OPTIMUM


def test_torques_along_a_curve_agree_with_gtsam(gtsam):
    """Inverse dynamics of the four-bar by the paper's four stages."""
    time = np.linspace(0.0, 0.2, 12)
    curve = (sign * np.array(wave(time))[:, None] for wave, sign in ((np.sin, 1), (np.cos, 1), (np.sin, -1)))
    motion = inverse_trajectory(four_bar(), time, *curve, FOUR_BAR_START)
    start = prior(
        motion.steps.graph, {v.name: motion.steps[v.name][0] for v in motion.steps.graph.variables}, {}
    )
    covariance = BatchSolver(motion.steps.graph, "numpy").covariance(motion.steps, start)
    assert_converged(gtsam, motion.steps, start, covariance)


def test_smoothed_recording_of_a_panda_agrees_with_gtsam(gtsam):
    """Motion and external torques from encoders, torques and two IMUs."""
    import estimated_arm as arm

    motion = arm.tracked(0.03)
    readings = arm.read(motion, np.random.default_rng(1))
    readings |= {"q": readings.pop("encoder"), "tau": readings.pop("torque")}
    estimate = smooth(
        arm.arm(), arm.T * np.arange(len(motion.q)), readings, arm.IMUS, options=arm.OPTIONS, backend="numpy"
    )
    assert_smoothed(gtsam, estimate, readings["q"][0], arm.OPTIONS)


@pytest.mark.parametrize("torque_std", [1e-4, 1e-6])
def test_smoothed_simulation_agrees_with_gtsam(gtsam, torque_std):
    """Torques with almost no noise."""
    swing, time = Swing(), 0.004 * np.arange(6)
    readings = {"q": np.array([swing.state(t)[0] for t in time])}
    readings["tau"] = np.array([swing.torque(t) for t in time])
    options = dn.SmootherOptions(torque_std=torque_std)
    assert_smoothed(
        gtsam,
        smooth(swing.model, time, readings, options=options, backend="numpy"),
        readings["q"][0],
        options,
    )


def assert_smoothed(gtsam, estimate, first, options):
    start = known_start(estimate.steps.graph, options, first)
    assert_converged(
        gtsam,
        estimate.steps,
        start,
        BatchSolver(estimate.steps.graph, "numpy").covariance(estimate.steps, start),
    )


def test_steps_and_values_correspond(gtsam):
    steps, _ = CASES["ball"]()
    _, values = to_gtsam(steps)
    before, step = steps["q"].copy(), np.array([0.1, -0.2, 0.3])
    values.update(gtsam_key(steps.graph, "q", 3), step)
    moved = from_gtsam(values, steps)
    assert np.allclose(np.linalg.norm(moved["q"], axis=1), 1.0) and (steps["q"] == before).all()
    variable = steps.graph.variables[0]
    assert np.allclose(variable.difference(moved["q"][3], steps["q"][3]), step, rtol=0.05)
    assert np.allclose(np.delete(moved["q"], 3, axis=0), np.delete(before, 3, axis=0), rtol=0, atol=1e-15)


def test_unsupported_loss_is_rejected(gtsam):
    x = vector("x", ["a"])
    loss = Loss("own", 1.0, lambda s: s, lambda s: 1.0 + 0.0 * s)
    read = TrajectoryFactor(name="read", residual=lambda x: x, rows=("a",), now=("x",), loss=loss)
    steps = TrajectoryGraph((x,), (read,)).steps(2)
    with pytest.raises(ValueError, match="'read'.*'own'"):
        to_gtsam(steps)


def test_missing_gtsam_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gtsam", None)
    with pytest.raises(ImportError, match="pip install 'gtsam>=4.3'"):
        to_gtsam(chain()[0])
