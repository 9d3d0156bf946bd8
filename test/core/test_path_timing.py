"""scale_trajectory: against toppra's own torque constraint, and by the limits that an optimal motion touches."""

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of
from scipy.interpolate import CubicSpline

import dynamics_node as dn
from dynamics_node.trajectory import path_timing

toppra = pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def spline(names, center, reach=0.5, seconds=2.0, seed=0):
    """A smooth path from rest to rest."""
    random = np.random.default_rng(seed)
    knots = np.linspace(0, seconds, 5)
    curve = CubicSpline(knots, center + random.uniform(-reach, reach, (5, len(names))), bc_type="clamped")
    time = np.linspace(0, seconds, 81)
    return dn.JointTrajectory(tuple(names), time, curve(time), curve(time, 1), curve(time, 2))


def problem_of(robot, points, limits=None, **options):
    return path_timing._Problem(dn.check_trajectory(robot, points, limits=limits, **options), limits or {})


def duration(problem, speeds):
    return float(np.sum(2 * np.diff(problem.s) / (speeds[1:] + speeds[:-1])))


@pytest.mark.parametrize("seed", range(3))
def test_duration_is_that_of_toppra_with_its_own_constraints(seed):
    """toppra calls inverse dynamics point by point; its path is the same."""
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST, seed=seed)
    problem = problem_of(robot, points, friction=False, backend="numpy")
    inverse = dn.build(robot, "inverse_dynamics", backend="numpy")
    q, v = problem.path[0], robot.velocity_limits
    path = toppra.SplineInterpolator(problem.s, q, "clamped")
    effort = np.stack([-robot.effort_limits, robot.effort_limits], axis=1)
    interpolation = toppra.constraint.DiscretizationType.Interpolation
    theirs = toppra.algorithm.TOPPRA(
        [
            toppra.constraint.JointVelocityConstraint(np.stack([-v, v], axis=1)),
            toppra.constraint.JointTorqueConstraint(inverse, effort, np.zeros(7), interpolation),
        ],
        path,
        gridpoints=problem.s,
    )
    _, speeds, _ = theirs.compute_parameterization(0, 0)
    assert np.isclose(duration(problem, problem._solved_from(0.0)), duration(problem, speeds), rtol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_an_optimal_motion_is_at_a_limit_all_the_time(seed):
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST, seed=seed)
    limits = {name: {"max_acceleration": 12.0} for name in robot.v_names}
    fast = dn.scale_trajectory(robot, points, limits=limits, backend="numpy")
    slow = dn.scale_trajectory(robot, points, limits=limits, method="uniform", backend="numpy")
    assert fast.feasible and slow.feasible and fast.time[-1] < slow.time[-1]
    used = np.abs(np.concatenate([fast.tau / robot.effort_limits, fast.qd / robot.velocity_limits, fast.qdd / 12], axis=1))  # fmt: skip
    assert used.max() <= 1 + 1e-6
    assert np.mean(used.max(axis=1) >= 0.97) >= 0.9


def test_the_path_stays():
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST)
    fast = dn.scale_trajectory(robot, points, backend="numpy")
    along = points.at(np.linspace(*points.time[[0, -1]], 20_001))[0]
    distances = [np.abs(along - q).max(axis=1).min() for q in fast.q[::17]]
    assert max(distances) <= 2e-4
    assert np.abs(fast.qd[[0, -1]]).max() <= 1e-9


def test_a_slow_trajectory_becomes_faster():
    robot = robot_of("panda7")
    fast, again = (
        dn.scale_trajectory(robot, spline(robot.v_names, REST).slowed(factor), backend="numpy")
        for factor in (1.0, 20.0)
    )
    assert np.isclose(fast.time[-1], again.time[-1], rtol=0.01)
    slow = dn.scale_trajectory(
        robot, spline(robot.v_names, REST).slowed(20.0), method="uniform", backend="numpy"
    )
    assert slow.time[-1] == 40.0


def test_friction_and_a_prismatic_joint():
    robot = dn.parse_robot(CART.replace('damping="0.5"', 'damping="8"'))
    points = spline(("slide", "hinge"), np.array([-0.1, 0.3]), reach=0.25)
    with_friction, without = (
        dn.scale_trajectory(robot, points, friction=own, backend="numpy") for own in (True, False)
    )
    assert with_friction.feasible and with_friction.time[-1] > without.time[-1]
    use = np.abs(with_friction.tau / robot.effort_limits).max(axis=1)
    speed = np.abs(with_friction.qd / robot.velocity_limits).max(axis=1)
    assert np.mean(np.maximum(use, speed) >= 0.95) >= 0.85


def test_a_closed_loop_with_a_payload():
    robot = robot_of("five_bar")
    robot = dn.with_payload(robot, "left_lower", 0.5, [0.5, 0.0, 0.0])
    at = dn.first_closed(robot, [1.9, 0, 1.2, 0])
    points = spline(("j1", "j2"), np.array([1.9, 1.2]), reach=0.2)
    limits = {name: {"max_effort": 40.0, "max_velocity": 3.0} for name in ("j1", "j2", "j3")}
    del limits["j3"]["max_effort"]  # an implicit joint
    fast = dn.scale_trajectory(robot, points, at=at, limits=limits, backend="numpy")
    slow = dn.scale_trajectory(robot, points, at=at, limits=limits, method="uniform", backend="numpy")
    assert fast.feasible and fast.time[-1] <= slow.time[-1]
    assert np.abs(dn.close_loops(robot, fast.q) - fast.q).max() <= 1e-9


@pytest.mark.parametrize(
    ("changes", "options", "error", "match"),
    [
        ({}, {"method": "fastest"}, dn.InputError, "fastest"),
        ({}, {"limits": {"slide": {"max_jerk": 5.0}}}, dn.InputError, "jerk"),
        ({}, {"limits": {"hinge": {"max_effort": 0.01}}}, ValueError, "effort"),
        ({}, {"limits": {"slide": {"max_position": 0.0}}}, ValueError, "position of slide"),
        ({"qd": np.nan}, {}, dn.InputError, "velocities"),
    ],
)
def test_impossible_requests(changes, options, error, match):
    from dataclasses import replace

    points = spline(("slide", "hinge"), np.array([0.0, 0.3]), reach=0.2)
    if changes:
        points = replace(points, qd=np.full_like(points.qd, np.nan), qdd=np.full_like(points.qd, np.nan))
    with pytest.raises(error, match=match):
        dn.scale_trajectory(dn.parse_robot(CART), points, backend="numpy", **options)
