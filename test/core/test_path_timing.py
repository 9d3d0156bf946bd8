"""scale_trajectory: against toppra's own torque constraint, and by the limits that an optimal motion touches."""

from dataclasses import replace

import numpy as np
import pytest
from cart_pole import CART
from cases import oracle_of
from robots import robot_of
from scipy.interpolate import CubicHermiteSpline, CubicSpline

import dynamics_node as dn

toppra = pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def spline(names, center, reach=0.5, seconds=2.0, seed=0):
    """A smooth path from rest to rest."""
    random = np.random.default_rng(seed)
    knots = np.linspace(0, seconds, 5)
    curve = CubicSpline(knots, center + random.uniform(-reach, reach, (5, len(names))), bc_type="clamped")
    time = np.linspace(0, seconds, 81)
    return dn.JointTrajectory(tuple(names), time, curve(time), curve(time, 1), curve(time, 2))


@pytest.mark.parametrize("seed", range(2))
def test_duration_is_that_of_toppra_with_its_own_constraints(seed):
    """toppra calls inverse dynamics point by point; its path is the same."""
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST, seed=seed)
    inverse = dn.build(robot, "inverse_dynamics", backend="numpy")
    v = robot.velocity_limits
    path = toppra.SplineInterpolator(points.time, points.q, "clamped")
    effort = np.stack([-robot.effort_limits, robot.effort_limits], axis=1)
    interpolation = toppra.constraint.DiscretizationType.Interpolation
    theirs = toppra.algorithm.TOPPRA(
        [
            toppra.constraint.JointVelocityConstraint(np.stack([-v, v], axis=1)),
            toppra.constraint.JointTorqueConstraint(inverse, effort, np.zeros(7), interpolation),
        ],
        path,
        gridpoints=np.linspace(0, 2, 301),
    )
    _, speeds, _ = theirs.compute_parameterization(0, 0)
    expected = (2 * (2 / 300) / (speeds[1:] + speeds[:-1])).sum()
    ours = dn.scale_trajectory(robot, points, friction=False, backend="numpy")
    assert np.isclose(ours.time[-1], expected, rtol=1e-2)


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
    along = points.at(np.linspace(*points.time[[0, -1]], 20_001)).q
    distances = [np.abs(along - q).max(axis=1).min() for q in fast.q[::17]]
    assert max(distances) <= 2e-4
    assert np.abs(fast.qd[[0, -1]]).max() <= 1e-9


def test_a_slow_trajectory_becomes_faster():
    robot = robot_of("panda7")
    fast, again = (
        dn.scale_trajectory(robot, spline(robot.v_names, REST).slowed(factor), backend="numpy")
        for factor in (1.0, 6.0)
    )
    assert np.isclose(fast.time[-1], again.time[-1], rtol=0.01)
    slow = dn.scale_trajectory(
        robot, spline(robot.v_names, REST).slowed(6.0), method="uniform", backend="numpy"
    )
    assert slow.time[-1] == 12.0


THREE = np.array([[0.1, -0.7, -0.1, -1.6, -0.3, 1.7, 0.4], [0.3, -0.2, -0.3, -1.6, -0.4, 1.4, 0.5], [0.0, -0.2, -0.3, -2.4, -0.1, 1.3, 0.4]])  # fmt: skip


def test_a_stop_on_the_way_where_accelerations_jump():
    """The optimum is verified by forward and backward integration on a grid of 300 points: 0.705 s."""
    robot = robot_of("panda7")
    rest, nothing = np.zeros((3, 7)), np.full((3, 7), np.nan)
    points = dn.JointTrajectory(robot.v_names, np.array([0.0, 0.5, 1.1]), THREE, rest, nothing)
    fast = dn.scale_trajectory(robot, points, friction=False, backend="numpy")
    assert fast.feasible and 0.68 <= fast.time[-1] <= 0.706
    passed = np.abs(fast.trajectory.q - THREE[1]).max(axis=1).argmin()
    assert np.allclose(fast.trajectory.q[passed], THREE[1], atol=1e-12)
    assert not fast.trajectory.qd[passed].any()
    _, tau = efforts_along("panda7", fast.trajectory)
    assert np.abs(tau / robot.effort_limits).max() <= 1 + 1e-4


@pytest.mark.parametrize("accelerations", [False, True])
def test_via_points_with_jumps(accelerations):
    robot = robot_of("panda7")
    rates = np.zeros((3, 7))
    rates[1] = THREE[2] - THREE[0]
    qdd = np.zeros((3, 7)) if accelerations else np.full((3, 7), np.nan)
    points = dn.JointTrajectory(robot.v_names, np.array([0.0, 0.5, 1.1]), THREE, rates, qdd)
    fast, slow = (
        dn.scale_trajectory(robot, points, method=own, friction=False, backend="numpy")
        for own in ("time_optimal", "uniform")
    )
    finer = dn.scale_trajectory(robot, points, friction=False, rate=1000.0, backend="numpy")
    assert fast.feasible and fast.time[-1] < 0.75 * slow.time[-1]
    assert np.isclose(fast.time[-1], finer.time[-1], rtol=0.01)


@pytest.mark.parametrize("limit", [None, 0.03])
@pytest.mark.parametrize("seconds", [1e-3, 1.0, 40.0])
def test_the_given_times_do_not_matter(seconds, limit):
    """A straight path from rest to rest within a limit of acceleration takes 2 sqrt(length / limit)."""
    robot, still = robot_of("panda7"), np.zeros((2, 7))
    q = np.stack([REST, REST + np.array([0.8, 0.3, 0.0, 0.4, 0.0, 0.0, 0.0])])
    points = dn.JointTrajectory(robot.v_names, np.array([0.0, seconds]), q, still, still)
    limits = limit and {name: {"max_acceleration": limit} for name in robot.v_names}
    fast = dn.scale_trajectory(robot, points, limits=limits, friction=False, backend="numpy")
    expected = 2 * np.sqrt(0.8 / limit) if limit else 0.392
    assert fast.feasible and np.isclose(fast.time[-1], expected, rtol=0.005)
    assert np.diff(fast.trajectory.time).max() <= 0.0105 and len(fast.trajectory) <= 110 * max(1, expected)


@pytest.mark.parametrize("step", [0.02, 0.01, 0.004])
def test_sampled_plans(step):
    """A plan as a controller receives it, with velocities alone, has nearly the time of its path."""
    robot = robot_of("panda7")
    whole = spline(robot.v_names, REST)
    time = np.arange(round(2 / step) + 1) * step
    plan = dn.JointTrajectory(robot.v_names, time, *whole.at(time)[1:3], np.full((len(time), 7), np.nan))
    times = [dn.scale_trajectory(robot, own, backend="numpy").time[-1] for own in (whole, plan)]
    assert np.isclose(*times, rtol=0.01)


def test_a_path_that_turns_back():
    """One joint goes and returns, and the points are not where it turns: the reversal is a stop."""
    robot, limits = dn.parse_robot(CART), {"slide": {"max_acceleration": 1.0, "max_velocity": 9.0}}
    time, rates = np.array([0.0, 1.0]), np.array([[0.0], [-1.0]])
    out = dn.JointTrajectory(("slide",), time, np.array([[0.0], [0.1]]), rates, np.full((2, 1), np.nan))
    fast = dn.scale_trajectory(robot, out, q0=[0, 0.3], limits=limits, friction=False, backend="numpy")
    furthest = CubicHermiteSpline(time, [0.0, 0.1], [0.0, -1.0])(np.linspace(0, 1, 100_001)).max()
    expected = 2 * np.sqrt(furthest) + 2 * np.sqrt(furthest - 0.1)
    assert np.isclose(fast.q[:, 0].max(), furthest, rtol=1e-4)
    assert np.isclose(fast.time[-1], expected, rtol=0.01)


def test_a_limit_of_deceleration():
    """From rest to rest over a length L with limits a and d: sqrt(2 L (a + d) / (a d))."""
    robot, still = dn.parse_robot(CART), np.zeros((2, 1))
    points = dn.JointTrajectory(("slide",), np.array([0.0, 1.0]), np.array([[-0.2], [0.2]]), still, still)
    limits = {"slide": {"max_acceleration": 2.0, "max_deceleration": 0.5}}
    fast = dn.scale_trajectory(robot, points, q0=[0, 0.3], limits=limits, friction=False, backend="numpy")
    assert np.isclose(fast.time[-1], np.sqrt(2 * 0.4 * 2.5 / 1.0), rtol=0.005)


def test_the_reason_of_an_effort_at_rest():
    robot, still = robot_of("panda7"), np.zeros((2, 7))
    q = np.stack([REST, REST + 0.3])
    points = dn.JointTrajectory(robot.v_names, np.array([0.0, 1.0]), q, still, still)
    limits = {"panda_joint2": {"max_effort": 5.0}}
    with pytest.raises(ValueError, match=r"panda_joint2 at .* s is -.* at rest, limit 5"):
        dn.scale_trajectory(robot, points, limits=limits, backend="numpy")


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
    fast = dn.scale_trajectory(robot, points, q0=at, limits=limits, backend="numpy")
    slow = dn.scale_trajectory(robot, points, q0=at, limits=limits, method="uniform", backend="numpy")
    assert fast.feasible and fast.time[-1] <= slow.time[-1]
    assert np.abs(dn.close_loops(robot, fast.q) - fast.q).max() <= 1e-9


@pytest.mark.parametrize(
    ("changes", "options", "error", "match"),
    [
        ({}, {"method": "fastest"}, dn.InputError, "fastest"),
        ({}, {"limits": {"hinge": {"max_effort": 0.01}}}, ValueError, "effort"),
        ({}, {"limits": {"slide": {"max_position": 0.0}}}, ValueError, "position of slide"),
        ({"qd": np.nan}, {}, dn.InputError, "velocities"),
    ],
)
def test_impossible_requests(changes, options, error, match):
    points = spline(("slide", "hinge"), np.array([0.0, 0.3]), reach=0.2)
    if changes:
        points = replace(points, qd=np.full_like(points.qd, np.nan), qdd=np.full_like(points.qd, np.nan))
    with pytest.raises(error, match=match):
        dn.scale_trajectory(dn.parse_robot(CART), points, backend="numpy", **options)


# --- limits of effort rates and of jerk ---------------------------------------------------------------------


def along(points, parts):
    """time, q, qd, qdd of the executed polynomials, at `parts` times in every segment."""
    steps = np.arange(parts) / parts
    time = (points.time[:-1, None] + np.diff(points.time)[:, None] * steps).ravel()
    return points.at(time)[:4]


def efforts_along(name, points, parts=20):
    """Times, and Pinocchio's torques, along the executed polynomials."""
    oracle, (time, *states) = oracle_of(name), along(points, parts)
    return time, np.array([oracle.inverse(*state) for state in zip(*states, strict=True)])


@pytest.mark.parametrize(("seed", "most"), [(0, 1000.0), (1, 200.0)])
def test_effort_rates_against_pinocchio(seed, most):
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST, seed=seed)
    limits = {name: {"max_effort_rate": most} for name in robot.v_names}
    smooth = dn.scale_trajectory(robot, points, limits=limits, friction=False)
    fast = dn.scale_trajectory(robot, points, friction=False)
    assert smooth.feasible and 1 < smooth.time[-1] / fast.time[-1] < 1.6
    time, tau = efforts_along("panda7", smooth.trajectory)
    rates = np.abs(np.diff(tau, axis=0) / np.diff(time)[:, None])
    assert 0.9 * most <= rates.max() <= most
    still = oracle_of("panda7").inverse(points.q[0], np.zeros(7), np.zeros(7))
    assert np.allclose(tau[0], still, atol=1e-9)  # no jump at the start
    assert (np.abs(tau) <= robot.effort_limits * (1 + 1e-6)).all()
    _, tau = efforts_along("panda7", fast.trajectory)
    assert np.abs(np.diff(tau, axis=0)).max() > 5.0  # jumps of the time-optimal motion


def test_rates_of_a_check_are_those_of_pinocchio():
    robot = robot_of("panda7")
    points = spline(robot.v_names, REST)
    limits = {name: {"max_effort_rate": 1e9} for name in robot.v_names}
    check = dn.check_trajectory(robot, points, limits=limits, friction=False, rate=400.0)
    time, tau = efforts_along("panda7", points, 100)
    middle = 0.5 * (time[1:] + time[:-1])
    expected = np.diff(tau, axis=0) / np.diff(time)[:, None]
    inner = np.append(np.diff(check.time) > 0, False) & np.append(False, np.diff(check.time) > 0)
    own = check.effort_rates.sum(axis=0)[inner]
    found = np.stack([np.interp(check.time[inner], middle, expected[:, k]) for k in range(7)], axis=1)
    assert np.abs(own - found).max() <= 2e-3 * np.abs(own).max()


def test_the_shortest_time_with_a_limit_of_jerk():
    """From rest to rest over a length L: (32 L / jerk)^(1/3)."""
    robot, still = dn.parse_robot(CART), np.zeros((2, 1))
    points = dn.JointTrajectory(("slide",), np.array([0.0, 1.0]), np.array([[-0.2], [0.2]]), still, still)
    options = {"q0": [0.0, 0.3], "friction": False, "backend": "numpy"}
    limits = {"slide": {"max_jerk": 2.0}}
    scaled = dn.scale_trajectory(robot, points, limits=limits, **options)
    assert scaled.feasible
    assert 1 - 1e-6 <= scaled.time[-1] / np.cbrt(32 * 0.4 / 2.0) <= 1.03
    uniform = dn.scale_trajectory(robot, points, limits=limits, method="uniform", **options)
    assert np.isclose(uniform.time[-1], np.cbrt(60 * 0.4 / 2.0), rtol=1e-5)  # jerk of 10 t^3 - 15 t^4 + 6 t^5


def test_a_uniform_factor_for_effort_rates():
    """The cart at an angle of zero: effort = mass x acceleration, so its rate falls with the cube."""
    robot, still = dn.parse_robot(CART), np.zeros((2, 1))
    points = dn.JointTrajectory(("slide",), np.array([0.0, 1.0]), np.array([[-0.2], [0.2]]), still, still)
    options = {"friction": False, "backend": "numpy"}
    free = dn.check_trajectory(robot, points, limits={"slide": {"max_effort_rate": 1e9}}, **options)
    largest = np.abs(free.effort_rates.sum(axis=0)[:, 0]).max()
    limits = {"slide": {"max_effort_rate": largest / 8}}
    check = dn.check_trajectory(robot, points, limits=limits, **options)
    assert check.worst.quantity == "effort_rate" and np.isclose(check.worst.used, 8)
    assert np.isclose(check.slowdown.factor, 2.0, rtol=1e-5) and check.slowed().feasible


def test_efforts_that_jump_have_no_rate():
    robot = robot_of("panda7")
    points = replace(spline(robot.v_names, REST), qdd=np.full((81, 7), np.nan))
    limits = {name: {"max_effort_rate": 1e5} for name in robot.v_names}
    fewer = {field: getattr(points, field)[::16] for field in ("time", "q", "qd", "qdd")}
    cubic = replace(points, **fewer)
    check = dn.check_trajectory(robot, cubic, limits=limits, backend="numpy")
    assert check.worst.quantity == "effort_rate" and np.isinf(check.worst.value)
    assert not check.slowdown.possible
    with pytest.raises(ValueError, match="effort_rate"):
        check.slowed()


def test_rates_of_a_loop_and_of_a_stop():
    robot = robot_of("five_bar")
    at = dn.first_closed(robot, [1.9, 0, 1.2, 0])
    q = np.array([[1.9, 1.2], [2.0, 1.3], [1.9, 1.5]])
    points = dn.JointTrajectory(("j1", "j2"), np.array([0.0, 0.4, 0.8]), q, *np.zeros((2, 3, 2)))
    limits = {
        name: {"max_effort": 40.0, "max_velocity": 3.0, "max_effort_rate": 400.0} for name in ("j1", "j2")
    }
    smooth = dn.scale_trajectory(robot, points, q0=at, limits=limits, backend="numpy")
    assert smooth.feasible
    _, *states = along(smooth.trajectory, 4)
    passed = np.abs(states[0] - q[1]).max(axis=1).argmin()
    assert np.abs(states[0][passed] - q[1]).max() <= 1e-6 and np.abs(states[1][passed]).max() <= 1e-6
    later = np.diff(smooth.time) > 0
    rates = np.diff(smooth.tau, axis=0)[later] / np.diff(smooth.time)[later, None]
    assert 300.0 <= np.abs(rates).max() <= 400.0


def test_a_limit_of_jerk_of_an_implicit_joint():
    """The motion is at this limit, and faster than the given one, which needs no slowdown."""
    robot = robot_of("five_bar")
    q = np.array([[1.9, 1.2], [2.2, 1.4]])
    points = dn.JointTrajectory(("j1", "j2"), np.array([0.0, 0.4]), q, *np.zeros((2, 2, 2)))
    limits = {name: {"max_effort": 40.0, "max_velocity": 3.0} for name in ("j1", "j2")}
    limits["j3"] = {"max_jerk": 300.0}
    at = dn.first_closed(robot, [1.9, 0, 1.2, 0])
    smooth = dn.scale_trajectory(robot, points, q0=at, limits=limits, backend="numpy")
    assert smooth.feasible and smooth.time[-1] < 0.32
    assert (smooth.worst.joint, smooth.worst.quantity) == ("j3", "jerk") and smooth.worst.used > 0.98
