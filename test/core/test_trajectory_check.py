"""check_trajectory: splines against SciPy, efforts against Pinocchio, slowdown and payload against a search."""

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of
from scipy.interpolate import BPoly, CubicHermiteSpline, PPoly, interp1d
from tolerances import EXACT, error

import dynamics_node as dn


def robot_named(name):
    return dn.parse_robot(CART) if name == "cart_pole" else robot_of(name)


def path(robot, points=6, seconds=1.2, scale=0.2, seed=3, fields=3):
    """A JointTrajectory around a position within the limits, with uneven times."""
    random = np.random.default_rng(seed)
    time = np.concatenate([[0.0], np.cumsum(random.uniform(0.5, 1.5, points - 1))])
    time *= seconds / time[-1]
    center = middle(robot)
    own = random.uniform(-scale, scale, (3, points, robot.nv)) * np.array([1.0, 2.0, 4.0])[:, None, None]
    own[0] += center
    own[fields:] = np.nan
    return dn.JointTrajectory(robot.v_names, time, *own)


def middle(robot):
    places = [robot.q_names.index(name) for name in robot.v_names]
    if robot.constrained:
        return dn.first_closed(robot, [1.9, 0.0, 1.2, 0.0])[places]
    low, high = robot.lower_position_limits[places], robot.upper_position_limits[places]
    bounded = np.isfinite(high - low)
    return np.where(bounded, 0.5 * (np.where(bounded, low, 0) + np.where(bounded, high, 0)), 0.0)


# --- splines ------------------------------------------------------------------------------------------------


def spline(points, fields):
    """SciPy's piecewise polynomial, and its derivatives."""
    if fields == 1:
        return interp1d(points.time, points.q, axis=0)
    if fields == 2:
        return CubicHermiteSpline(points.time, points.q, points.qd)
    return BPoly.from_derivatives(points.time, np.stack([points.q, points.qd, points.qdd], axis=1))


@pytest.mark.parametrize("fields", [1, 2, 3])
def test_splines_are_those_of_scipy(fields):
    robot = robot_of("panda7")
    points = path(robot, fields=fields)
    check = dn.check_trajectory(robot, points, rate=200, backend="numpy")
    assert np.diff(check.time).max() <= 1 / 200 + 1e-12 and (check.time == points.time[0]).any()
    truth = spline(points, fields)
    assert np.abs(check.q - truth(check.time)).max() <= 1e-12
    inside = ~np.isin(check.time, points.time)  # both sides of a point have its time
    if fields > 1:
        assert np.abs(check.qd - truth(check.time, 1)).max() <= 1e-10
        assert np.abs(check.qdd - truth(check.time, 2))[inside].max() <= 1e-9
    else:
        speeds = np.diff(points.q, axis=0) / np.diff(points.time)[:, None]
        segment = np.searchsorted(points.time, check.time[inside]) - 1
        assert np.abs(check.qd[inside] - speeds[segment]).max() <= 1e-12 and not check.qdd.any()


def test_accelerations_of_cubics_jump_and_both_sides_count():
    robot = robot_of("panda7")
    points = path(robot, fields=2)
    check = dn.check_trajectory(robot, points, backend="numpy")
    before, after = (CubicHermiteSpline(points.time[k : k + 2], points.q[k : k + 2], points.qd[k : k + 2])(points.time[2], 2) for k in (1, 2))  # fmt: skip
    rows = np.flatnonzero(check.time == points.time[2])
    assert len(rows) == 2 and np.abs(check.qdd[rows] - [before, after]).max() <= 1e-9
    assert np.array_equal(check.efforts[2], check.tau[rows[1]])


def test_the_fields_of_both_points_choose_the_polynomial():
    robot = robot_of("panda7")
    whole = path(robot, points=5)
    qd, qdd = whole.qd.copy(), whole.qdd.copy()
    qd[0], qdd[:2], qdd[3] = np.nan, np.nan, np.nan
    points = dn.JointTrajectory(whole.names, whole.time, whole.q, qd, qdd)
    assert points.degrees().tolist() == [1, 3, 3, 3]
    check = dn.check_trajectory(robot, points, backend="numpy")
    assert np.abs(check.q[np.searchsorted(check.time, whole.time)] - whole.q).max() <= 1e-12
    assert any("1 of 4 segments" in note for note in check.notes)


@pytest.mark.parametrize("fields", [2, 3])
@pytest.mark.parametrize("jerk", [False, True])
def test_samples_of_dense_points_are_those_of_the_polynomials(fields, jerk):
    """Starts and middles of segments, and their ends where accelerations or jerks jump."""
    robot = dn.parse_robot(CART)
    points = path(robot, points=3000, seconds=20.0, scale=0.1, fields=fields)
    limits = {"slide": {"max_jerk": 1e9}} if jerk else None
    check = dn.check_trajectory(robot, points, limits=limits, backend="numpy")
    jumps = np.diff(check.time) == 0
    assert jumps.sum() == (2998 if jerk or fields == 2 else 0)
    inner = np.searchsorted(points.time, check.time[~np.isin(check.time, points.time)])
    assert np.array_equal(np.unique(inner), np.arange(1, 3000)) and np.isin(points.time, check.time).all()
    truth, before = spline(points, fields), np.append(jumps, False)
    for order, own in enumerate((check.q, check.qd, check.qdd)):
        expected, size = truth(check.time, order)[~before], np.abs(own).max()
        assert np.abs(own[~before] - expected)[:-1].max() <= 1e-9 * size


def test_jerk_by_finite_differences():
    robot = robot_of("panda7")
    points = path(robot, points=2)
    samples = list(points.sampling(1e5, jerk=True).samples())
    time, qdd, jerk = (np.concatenate([getattr(own, k) for own in samples]) for k in ("time", "qdd", "jerk"))
    steps = np.diff(time)
    differences = np.diff(qdd, axis=0) / steps[:, None]
    between = 0.5 * (jerk[1:] + jerk[:-1])
    assert np.abs(differences - between)[steps > 1e-6].max() <= 1e-4 * np.abs(between).max()


def test_extremes_between_points_are_exact():
    """Against roots of the derivatives of every segment, by SciPy."""
    robot = without_positions(robot_of("panda7"))
    limits = {name: {"max_acceleration": 1.0, "max_velocity": 1.0, "max_jerk": 1.0} for name in robot.v_names}
    for seed, fields in ((0, 2), (1, 3), (2, 3)):
        points = path(robot, points=9, seconds=0.05, seed=seed, fields=fields)
        check = dn.check_trajectory(robot, points, limits=limits, friction=False, backend="numpy")
        for k, name in enumerate(robot.v_names):
            for order, kind in enumerate(("velocity", "acceleration", "jerk"), start=1):
                (margin,) = [m for m in check.margins if (m.joint, m.quantity) == (name, kind)]
                truth = most(points, k, fields, order)
                assert np.isclose(abs(margin.value), truth, rtol=1e-7), (name, kind)
                at = spline(points, fields)
                sides = [at(margin.time + step, order)[k] for step in (-1e-10, 1e-10)]
                assert np.isclose(np.abs(sides), truth, rtol=1e-4).any()


def most(points, joint, fields, order):
    """The largest magnitude of a derivative of one joint along the whole trajectory."""
    largest = 0.0
    for k in range(len(points) - 1):
        rows = slice(k, k + 2)
        own = np.stack([points.q[rows, joint], points.qd[rows, joint], points.qdd[rows, joint]], axis=1)
        curve = BPoly.from_derivatives(points.time[rows], own[:, :fields]).derivative(order)
        power = PPoly.from_bernstein_basis(curve)
        inner = power.derivative().roots(extrapolate=False)
        places = np.concatenate([points.time[rows], inner[np.isfinite(inner)]])
        values = power(np.clip(places, points.time[k], np.nextafter(points.time[k + 1], 0)))
        largest = max(largest, np.abs(values).max())
    return largest


@pytest.mark.parametrize("fields", [2, 3])
def test_points_with_zero_rates_are_a_motion_that_stops_at_every_point(fields):
    """The mean velocity is 1 rad/s; between two stops a cubic has 1.5 of it, a quintic 1.875."""
    robot = robot_of("panda7")
    time, q = 0.004 * np.arange(101), np.tile(middle(robot), (101, 1))
    q[:, 0] += time
    rates = [np.zeros_like(q), np.full_like(q, 0.0 if fields == 3 else np.nan)]
    points = dn.JointTrajectory(robot.v_names, time, q, *rates)
    check = dn.check_trajectory(robot, points, friction=False, backend="numpy")
    velocity = next(m for m in check.margins if (m.joint, m.quantity) == ("panda_joint1", "velocity"))
    assert np.isclose(velocity.value, {2: 1.5, 3: 1.875}[fields], rtol=1e-9)
    acceleration = {2: 6.0, 3: 10 / np.sqrt(3)}[fields] / 0.004
    assert np.isclose(np.abs(check.qdd).max(), acceleration, rtol=1e-6)
    still = dn.evaluate(robot, "mass_matrix", middle(robot), backend="numpy")[0, 0]
    assert check.peak_effort[0] >= 0.99 * still * acceleration
    assert not check.feasible and check.worst.quantity == "effort"


def test_extremes_of_positions_between_two_points():
    """Out and back within 10 ms: the positions of both points are zero."""
    robot, still = dn.parse_robot(CART), np.zeros((2, 1))
    points = dn.JointTrajectory(("slide",), np.array([0.0, 0.01]), still, np.array([[1.0], [-1.0]]), still)
    check = dn.check_trajectory(robot, points, backend="numpy")
    truth = spline(points, 3)
    fine = truth(np.linspace(0, 0.01, 100_001))
    assert fine.max() > 0 and np.isclose(check.q[:, 0].max(), fine.max(), rtol=1e-9)


def test_jerks_at_both_ends_of_segments_count():
    robot, zero = dn.parse_robot(CART), np.zeros((3, 1))
    time, q = np.array([0.0, 0.01, 0.02]), np.array([[0.0], [1e-6], [1e-6]])
    qdd = np.array([[0.0], [0.1], [0.0]])
    points = dn.JointTrajectory(("slide",), time, q, zero, qdd)
    check = dn.check_trajectory(robot, points, limits={"slide": {"max_jerk": 1e9}}, backend="numpy")
    (margin,) = [own for own in check.margins if own.quantity == "jerk"]
    truth = BPoly.from_derivatives(time, np.stack([q, zero, qdd], axis=1)).derivative(3)
    ends = [abs(truth(t)[0]) for t in (0.0, 0.01 - 1e-12, 0.01, 0.02 - 1e-12)]
    assert max(ends) == ends[1] > 1.1 * max(ends[:1] + ends[2:])
    assert np.isclose(abs(margin.value), ends[1], rtol=1e-6)


def test_many_segments_are_sampled_in_parts():
    robot = dn.parse_robot(CART)
    time = np.cumsum(np.random.default_rng(0).uniform(1e-3, 3e-2, 5000))
    q, qd, qdd = np.stack([np.sin(time), np.cos(time), -np.sin(time)])[:, :, None] * [0.1, 0.2]
    whole = dn.check_trajectory(robot, dn.JointTrajectory(robot.v_names, time, q, qd, qdd), backend="numpy")
    truth = BPoly.from_derivatives(time, np.stack([q, qd, qdd], axis=1))
    assert (np.diff(whole.time) > 0).all() and whole.time[-1] == time[-1]
    assert np.abs(whole.q - truth(whole.time)).max() <= 1e-12
    assert np.abs(whole.qdd - truth(whole.time, 2)).max() <= 1e-6


# --- efforts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda7", "panda", "ur5", "tiago"])
def test_efforts_are_those_of_pinocchio(name, oracle_named):
    robot, oracle = robot_of(name), oracle_named(name)
    check = dn.check_trajectory(robot, path(robot, fields=2), friction=False, backend="numpy")
    rows = slice(None, None, 7)
    expected = [oracle.inverse(*s) for s in zip(check.q[rows], check.qd[rows], check.qdd[rows], strict=True)]
    assert error(check.tau[rows], expected).max() <= EXACT
    message = check.message()
    assert np.array_equal([point["effort"] for point in message["points"]], check.efforts)


@pytest.fixture
def oracle_named():
    from cases import oracle_of  # skips without Pinocchio

    return oracle_of


def test_friction_of_the_motors():
    robot = dn.parse_robot(CART)
    points = path(robot)
    with_friction, without = (
        dn.check_trajectory(robot, points, friction=own, backend="numpy") for own in (True, False)
    )
    slide = with_friction.qd[:, 0]
    assert np.allclose((with_friction.tau - without.tau)[:, 0], 0.5 * slide + 2 * np.tanh(slide / 0.01))
    assert not (with_friction.tau - without.tau)[:, 1].any()


def test_closed_loop():
    robot = robot_of("five_bar")
    points = path(robot, scale=0.1)
    check = dn.check_trajectory(robot, points, q0=dn.first_closed(robot, [1.9, 0, 1.2, 0]), backend="numpy")
    closed = dn.close_loops(robot, check.q)
    assert np.abs(closed - check.q).max() <= 1e-9
    own = [robot.q_names.index(name) for name in robot.v_names]
    assert np.abs(check.q[:, own] - spline(points, 3)(check.time)).max() <= 1e-12
    tau = dn.evaluate(robot, "inverse_dynamics", check.q, check.qd, check.qdd, backend="numpy")
    assert error(check.tau, tau + dn.friction_torque(robot, check.q, check.qd)).max() <= EXACT
    limits = {"j3": {"max_velocity": 0.1}}  # of an implicit joint
    limited = dn.check_trajectory(robot, points, limits=limits, q0=check.q[0], backend="numpy")
    rates = dn.spanning(robot, check.q, check.qd)[1]
    j3 = [body.joint.name for body in robot.bodies].index("j3")
    assert limited.worst.joint == "j3" and np.isclose(limited.worst.used, np.abs(rates[:, j3]).max() / 0.1)


def test_positions_of_joints_that_follow_others():
    """They are not used: a note has the largest difference, of implicit and of mimic joints."""
    robot, at = robot_of("five_bar"), dn.first_closed(robot_of("five_bar"), [1.9, 0, 1.2, 0])
    q = np.stack([at, at])
    points = dn.JointTrajectory(robot.q_names, [0.0, 1.0], q, 0 * q, 0 * q)
    right = dn.check_trajectory(robot, points, q0=at, backend="numpy")
    assert not right.notes
    q[1, robot.q_names.index("j3")] += 3.0
    wrong = dn.check_trajectory(
        robot, dn.JointTrajectory(robot.q_names, [0, 1], q, 0 * q, 0 * q), q0=at, backend="numpy"
    )
    (note,) = wrong.notes
    assert note.startswith("j3 ") and "3 rad off at 1 s" in note
    assert np.abs(wrong.q - right.q[0]).max() <= 1e-12
    robot = robot_of("panda")
    (mimic,) = [joint.name for joint in robot.explicit_joints]
    fingers = ("panda_finger_joint1", mimic)
    for other, count in ((0.02, 0), (0.03, 1)):
        points = dn.JointTrajectory(fingers, [0.0], [[0.02, other]], [[0.0, 0.0]], [[0.0, 0.0]])
        notes = dn.check_trajectory(robot, points, backend="numpy").notes
        assert [note.startswith(mimic) for note in notes] == [True] * count


@pytest.mark.parametrize(
    ("end", "speed", "time"), [([2.9, 0.2], 0.0, r"at 1 s"), ([1.9, 1.2], 4.0, r"at 0\.[1-4]\d* s")]
)
def test_a_loop_that_opens_on_the_way(end, speed, time):
    """The error has the loop and the time of a point, or of the first sample between points."""
    robot = robot_of("five_bar")
    rates = speed * np.array([[1.0, -1.0], [-1.0, 1.0]])
    points = dn.JointTrajectory(("j1", "j2"), np.arange(2.0), np.array([[1.9, 1.2], end]), rates, 0 * rates)
    at = dn.first_closed(robot, [1.9, 0, 1.2, 0])
    with pytest.raises(dn.ClosureError, match=rf"^{time}: .*'j5'"):
        dn.check_trajectory(robot, points, q0=at, backend="numpy")


def test_jerks_of_implicit_joints():
    """Third differences of closed positions; at half the speed they are an eighth."""
    robot, step = robot_of("five_bar"), 1e-3
    points, names = path(robot, points=2, scale=0.1), robot.q_names
    at, own = dn.first_closed(robot, [1.9, 0, 1.2, 0]), [names.index(name) for name in robot.v_names]
    options = {"q0": at, "limits": {name: {"max_jerk": 1e9} for name in names}, "backend": "numpy"}
    margins = dn.check_trajectory(robot, points, **options).margins
    jerks = {margin.joint: margin for margin in margins if margin.quantity == "jerk"}
    for k, name in enumerate(names):
        q = np.tile(at, (4, 1))
        q[:, own] = spline(points, 3)(jerks[name].time + step * np.array([-2, -1, 1, 2]))
        truth = dn.close_loops(robot, q)[:, k] @ [-1, 2, -2, 1] / (2 * step**3)
        assert abs(truth) > 1 and np.isclose(jerks[name].value, truth, rtol=1e-4)
    options["limits"] = {"j3": {"max_jerk": abs(jerks["j3"].value) / 8}}
    check = dn.check_trajectory(robot, points, **options)
    assert np.isclose(check.slowdown.factor, 2) and check.slowed().feasible


# --- limits and margins -------------------------------------------------------------------------------------


def test_margins_of_every_limit():
    robot = dn.parse_robot(CART)
    limits = {"slide": {"max_acceleration": 3.0, "max_jerk": 50.0, "max_position": 0.4, "max_effort": 20.0}}
    check = dn.check_trajectory(robot, path(robot), limits=limits, backend="numpy")
    margins = {(own.joint, own.quantity): own for own in check.margins}
    assert len(margins) == 3 + 3 + 2 == len(check.margins)
    assert list(check.margins) == sorted(check.margins, key=lambda own: -own.used)
    own = margins["slide", "acceleration"]
    row = int(np.argmax(np.abs(check.qdd[:, 0])))
    assert own.time == check.time[row] and own.value == check.qdd[row, 0]
    assert np.isclose(own.used, abs(own.value) / 3) and np.isclose(own.margin, 3 - abs(own.value))
    position = margins["slide", "position"]
    assert np.isclose(position.used, np.abs((check.q[:, 0] + 0.2) / 0.6).max())
    assert margins["slide", "effort"].limit in (20.0, -20.0)
    assert check.feasible == (check.margins[0].used <= 1)


def test_deceleration_has_its_own_limit():
    text = CART.replace(
        'velocity="2" effort="60"', 'velocity="2" effort="60" acceleration="9" deceleration="2"'
    )
    robot = dn.parse_robot(text)
    points = dn.JointTrajectory(
        ("slide",), np.array([0.0, 1.0]), np.array([[0.0], [0.4]]), *np.zeros((2, 2, 1))
    )
    worst = dn.check_trajectory(robot, points, backend="numpy").worst
    assert (worst.joint, worst.quantity, abs(worst.limit)) == ("slide", "acceleration", 2.0)
    assert worst.value < 0 and worst.time > 0.5  # while it brakes


def test_limits_of_mimic_joints():
    robot = robot_of("panda")
    (finger,) = [joint for joint in robot.explicit_joints]
    points = dn.JointTrajectory(("panda_finger_joint1",), np.array([0.0, 1.0]), np.array([[0.0], [0.02]]), *np.zeros((2, 2, 1)))  # fmt: skip
    check = dn.check_trajectory(robot, points, limits={finger.name: {"max_velocity": 0.01}}, backend="numpy")
    margin = next(own for own in check.margins if own.joint == finger.name and own.quantity == "velocity")
    assert np.isclose(margin.used, 0.02 * 1.875 / 0.01)


def test_joints_that_the_trajectory_omits_rest():
    robot = robot_of("panda7")
    at = np.array([0.1, -0.5, 0.2, -2.0, 0.0, 1.6, 0.8])
    points = dn.JointTrajectory(("panda_joint4", "panda_joint2"), np.array([0.5, 1.0]), np.array([[-2.0, -0.5], [-1.5, -0.7]]), *np.zeros((2, 2, 2)))  # fmt: skip
    check = dn.check_trajectory(robot, points, q0=at, backend="numpy")
    assert np.array_equal(np.ptp(check.q, axis=0) > 0, [False, True, False, True, False, False, False])
    assert np.array_equal(check.q[0], at) and np.allclose(check.q[-1, [3, 1]], [-1.5, -0.7])
    assert any("first point" in note for note in check.notes)
    still = dn.check_trajectory(robot, points, backend="numpy")  # the others are at zero
    positions = {own.joint for own in still.margins if own.quantity == "position"}
    assert positions == set(points.names)


# --- loads --------------------------------------------------------------------------------------------------


def test_loads_against_sums_over_time():
    robot = robot_of("panda7")
    check = dn.check_trajectory(
        robot, path(robot, seconds=3.0), thermal_window=0.5, rate=2000, backend="numpy"
    )
    time = np.linspace(check.time[0], check.time[-1], 40_001)
    tau, qd = (np.stack([np.interp(time, check.time, own) for own in array.T], axis=1) for array in (check.tau, check.qd))  # fmt: skip
    assert np.allclose(check.rms_effort, np.sqrt(np.mean(tau**2, axis=0)), rtol=1e-3)
    step = time[1] - time[0]
    sums = np.concatenate([np.zeros((1, 7)), np.cumsum(tau[:-1] ** 2 * step, axis=0)])
    width = round(0.5 / step)
    thermal = np.sqrt((sums[width:] - sums[:-width]).max(axis=0) / 0.5)
    assert np.allclose(check.thermal_effort, thermal, rtol=2e-3)
    assert (check.thermal_effort >= check.rms_effort).all() and (
        check.peak_effort >= check.thermal_effort
    ).all()
    power = tau * qd
    assert np.allclose(check.energy, np.maximum(power, 0).mean(axis=0) * np.ptp(time), rtol=1e-3, atol=1e-4)
    assert np.allclose(check.peak_power, np.abs(power).max(axis=0), rtol=1e-3)
    assert np.isclose(check.peak_total_power, power.sum(axis=1).max(), rtol=1e-3)


def test_a_short_trajectory_has_no_window():
    robot = dn.parse_robot(CART)
    check = dn.check_trajectory(robot, path(robot), backend="numpy")
    assert np.array_equal(check.thermal_effort, check.rms_effort)


def test_one_point_is_checked_at_rest():
    robot = robot_of("panda7")
    q = np.array([[0.1, -0.5, 0.2, -2.0, 0.0, 1.6, 0.8]])
    nothing = np.full((1, 7), np.nan)
    check = dn.check_trajectory(robot, dn.JointTrajectory(robot.v_names, np.zeros(1), q, nothing, nothing), backend="numpy")  # fmt: skip
    still = dn.evaluate(robot, "gravity_torque", q[0], backend="numpy") + dn.friction_torque(
        robot, q[0], 0 * q[0]
    )
    assert np.allclose(check.tau, [still]) and np.allclose(check.rms_effort, np.abs(still))


# --- slowdown -----------------------------------------------------------------------------------------------


def searched(robot, points, factors, rate=100.0, **options):
    """The smallest of the factors with which the trajectory is feasible, by trial; samples are the same."""
    for factor in factors:
        slow = points.slowed(factor)
        if dn.check_trajectory(
            robot, slow, rate=rate / factor * (1 + 1e-9), backend="numpy", **options
        ).feasible:
            return factor
    return np.inf


CASES = [("panda7", False, 0.7), ("ur5", False, 1.4), ("cart_pole", True, 0.5), ("five_bar", False, 0.25)]


@pytest.mark.parametrize("name, friction, scale", CASES)
@pytest.mark.parametrize("room", [1.02, 1.5])
def test_slowdown_is_the_first_feasible_factor(name, friction, scale, room):
    """room: of effort limits, in terms of the largest torque at rest."""
    robot = robot_named(name)
    if name == "cart_pole":  # dry friction follows the velocity: not of the form
        robot = dn.parse_robot(CART.replace('friction="2"', 'friction="0"').replace('"0.5" ', '"5" '))
    points = path(robot, points=4, seconds=0.8, scale=scale)
    at = dn.first_closed(robot, [1.9, 0, 1.2, 0]) if robot.constrained else None
    options = {"friction": friction, "q0": at}
    check = dn.check_trajectory(robot, points, backend="numpy", **options)
    still = dn.evaluate(robot, "gravity_torque", check.q, backend="numpy")
    most = room * np.abs(still).max(axis=0) + 0.05 * np.ptp(check.tau, axis=0)
    limits = {joint: {"max_effort": own} for joint, own in zip(robot.v_names, most, strict=True)}
    limits = {k: v | {"min_position": -9.0, "max_position": 9.0} for k, v in limits.items()}
    limited = without_positions(robot)
    check = dn.check_trajectory(limited, points, limits=limits, backend="numpy", **options)
    assert not check.feasible
    slowdown = check.slowdown
    assert slowdown.possible and slowdown.factor > 1 and not slowdown.at_rest
    factors = np.linspace(1.0, slowdown.factor * 1.2, 41)
    step = factors[1] - factors[0]
    found = searched(limited, points, factors, limits=limits, **options)
    assert found - step <= slowdown.factor <= found * (1 + 1e-9)
    rate = 100 / slowdown.factor * (1 + 1e-9)  # the same samples
    slow = points.slowed(slowdown.factor)
    again = dn.check_trajectory(limited, slow, limits=limits, rate=rate, backend="numpy", **options)
    assert again.feasible and np.isclose(again.worst.used, 1)
    assert (again.worst.joint, again.worst.quantity) == (slowdown.limit.joint, slowdown.limit.quantity)
    finer = check.slowed()
    assert finer.feasible  # its times are whole nanoseconds
    assert 1 - 1e-8 <= finer.time[-1] / check.time[-1] / slowdown.factor <= 1.02


def without_positions(robot):
    """The robot without limits of positions."""
    from dataclasses import replace

    bodies = [
        replace(
            body, joint=replace(body.joint, limits=replace(body.joint.limits, lower=-np.inf, upper=np.inf))
        )
        for body in robot.tree.bodies
    ]
    return robot.with_tree(replace(robot.tree, bodies=tuple(bodies)))


def test_a_torque_at_rest_is_told_apart():
    robot = without_positions(robot_of("panda7"))
    points = path(robot, scale=0.3)
    still = np.abs(dn.evaluate(robot, "gravity_torque", points.q[2], backend="numpy"))
    limits = {"panda_joint2": {"max_effort": 0.9 * still[1]}}
    check = dn.check_trajectory(robot, points, limits=limits, friction=False, backend="numpy")
    slowdown = check.slowdown
    assert slowdown.at_rest and not slowdown.possible and slowdown.factor == np.inf
    assert (slowdown.limit.joint, slowdown.limit.quantity) == ("panda_joint2", "effort")
    assert slowdown.limit.used > 1
    with pytest.raises(ValueError, match="panda_joint2"):
        check.slowed()


def test_a_position_beyond_its_limit_stays_there():
    robot = dn.parse_robot(CART)
    points = dn.JointTrajectory(
        ("slide",), np.array([0.0, 1.0]), np.array([[0.0], [0.6]]), *np.zeros((2, 2, 1))
    )
    slowdown = dn.check_trajectory(robot, points, backend="numpy").slowdown
    assert not slowdown.possible and not slowdown.at_rest
    assert (slowdown.limit.joint, slowdown.limit.quantity, slowdown.limit.limit) == ("slide", "position", 0.5)


def test_a_feasible_trajectory_needs_no_slowdown():
    robot = dn.parse_robot(CART)
    points = dn.JointTrajectory(
        ("slide",), np.array([0.0, 5.0]), np.array([[0.0], [0.1]]), *np.zeros((2, 2, 1))
    )
    check = dn.check_trajectory(robot, points, backend="numpy")
    assert check.feasible and check.slowdown == dn.Slowdown(1.0, None, False)


def test_feasible_speeds_may_have_a_gap():
    """Torques of a motion that gravity supports exceed the limit at a medium speed: a search by halving could
    miss this."""
    from dynamics_node.trajectory.slowdown import largest_speed

    constant, linear, square, limit = np.array([[1.0, 0.0], [0.0, 2.0], [-3.4, 0.9], [1.0, 2.0]])
    x, entry = largest_speed(np.stack([constant, linear, square]), -limit, limit)
    assert entry >= 0
    grid = np.linspace(0, 1, 100_001)[:, None]
    good = (np.abs(constant + grid * (linear + grid * square)) <= limit).all(axis=1)
    assert np.isclose(x, grid[good].max(), atol=1e-4)


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("seed", range(30))
def test_largest_speed_against_a_grid(seed, degree):
    """Cubic: rates of torques, whose parts may cancel at a medium speed. Limits differ by sign."""
    from dynamics_node.trajectory.slowdown import largest_speed

    random = np.random.default_rng(seed)
    coefficients = random.normal(size=(degree + 1, 4)) * [[0.6], [2.0], [2.0], [6.0]][: degree + 1]
    lower, upper = np.array([[-1.0, -0.7, -np.inf, -1.0], [1.0, 1.2, 1.0, 0.8]])
    x, entry = largest_speed(coefficients, lower, upper)
    grid = np.linspace(0, 1, 200_001)[:, None]
    values = np.polynomial.polynomial.polyval(grid, coefficients, tensor=False)
    best = grid[((values <= upper) & (values >= lower)).all(axis=1)].max(initial=0.0)
    assert abs(x - best) <= 1e-5
    assert (entry < 0) == (best == 1.0)


# --- payload ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_largest_payload(backend):
    robot = without_positions(robot_of("panda7"))
    points, com = path(robot, scale=0.1), [0.02, 0.0, 0.1]
    check = dn.check_trajectory(robot, points, backend=backend)
    mass = check.largest_payload("panda_hand", com)
    assert 0 < mass < 20
    for factor, feasible in ((0.999, True), (1.001, False)):
        loaded = dn.with_payload(robot, "panda_hand", factor * mass, com)
        assert dn.check_trajectory(loaded, points, backend="numpy").feasible == feasible
    heavy = dn.with_payload(robot, "panda_hand", 1.5 * mass, com)
    assert dn.check_trajectory(heavy, points, backend="numpy").largest_payload("panda_hand", com) == 0
    assert check.largest_payload("panda_link0") == np.inf  # the root does not move
    with pytest.raises(KeyError, match="no_link"):
        check.largest_payload("no_link")


def test_largest_payload_with_limits_of_effort_rates():
    """On a fixed base and in a loop: the loaded robot is at a limit of a rate."""
    for name, link in (("panda7", "panda_hand"), ("five_bar", "right_lower")):
        robot = robot_of(name)
        points, at = path(robot, points=3, scale=0.1), None
        if robot.constrained:
            at = dn.first_closed(robot, [1.9, 0.0, 1.2, 0.0])
        limits = {joint: {"max_effort_rate": 1e9} for joint in robot.v_names}
        margins = dn.check_trajectory(robot, points, q0=at, limits=limits, backend="numpy").margins
        limits = {
            m.joint: {"max_effort_rate": 1.2 * abs(m.value)} for m in margins if m.quantity == "effort_rate"
        }
        options = {"q0": at, "limits": limits, "backend": "numpy"}
        mass = dn.check_trajectory(robot, points, **options).largest_payload(link)
        assert 0 < mass < np.inf
        for factor, feasible in ((0.999, True), (1.001, False)):
            loaded = dn.with_payload(robot, link, factor * mass, np.zeros(3))
            check = dn.check_trajectory(loaded, points, **options)
            assert check.feasible == feasible and check.worst.quantity == "effort_rate"


# --- inputs -------------------------------------------------------------------------------------------------


def message(**changes):
    points = [{"time_from_start": {"sec": k, "nanosec": 500_000_000}, "positions": [0.1 * k, 0.0], "velocities": [0.0, 0.0]} for k in range(3)]  # fmt: skip
    return {"joint_names": ["slide", "hinge"], "points": points} | changes


def test_a_simulated_motion_needs_its_torques():
    robot = dn.parse_robot(CART)
    motion = dn.simulate(robot, [0.0, 0.1], duration=0.3, dt=1e-3, torque=[3.0, 0.5], backend="numpy")
    check = dn.check_trajectory(robot, motion, backend="numpy")
    assert np.abs(check.efforts[5:-5] - motion.tau[5:-5]).max() <= 1e-2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"joint_names": ["slide", "knee"]}, "knee"),
        ({"joint_names": ["slide", "slide"]}, "twice"),
        ({"points": []}, "points"),
        ({"points": [{"time_from_start": 0.0, "velocities": [0.0, 0.0]}]}, "point 0 has no positions"),
        ({"points": [{"time_from_start": 0.0, "positions": [0.0]}]}, "point 0: positions"),
        ({"points": [{"positions": [0.0, 0.0]}]}, "time_from_start"),
        ({"points": [{"time_from_start": 0.0, "positions": [0.0, float("nan")]}]}, "hinge"),
        ({"points": [{"time_from_start": 0.0, "positions": [0.0, 0.0]}] * 2}, "point 1 is not after"),
        (
            {"points": [{"time_from_start": 0.0, "positions": [0.0, 0.0], "accelerations": [0.0, 0.0]}]},
            "point 0 has accelerations without velocities",
        ),
    ],
)
def test_wrong_trajectories(changes, match):
    with pytest.raises(dn.InputError, match=match):
        dn.check_trajectory(dn.parse_robot(CART), message(**changes), backend="numpy")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"limits": {"knee": {"max_effort": 1.0}}}, "knee"),
        ({"limits": {"slide": {"max_force": 1.0}}}, "max_force"),
        (
            {"limits": {"slide": {"min_position": 0.2, "max_position": 0.1}}},
            "'slide': the lowest position, 0.2, is above",
        ),
        ({"limits": {"slide": {"max_effort": -1.0}}}, "max_effort of 'slide'"),
        ({"thermal_window": 0.0}, "window"),
        ({"rate": np.inf}, "rate"),
        ({"q0": [0.0]}, "q0"),
    ],
)
def test_wrong_options(options, match):
    with pytest.raises(dn.InputError, match=match):
        dn.check_trajectory(dn.parse_robot(CART), message(), backend="numpy", **options)


def test_a_floating_base_rests_at_its_pose(oracle_named):
    """The trajectory moves the joints; the base has no limits."""
    robot, oracle = robot_of("solo12"), oracle_named("solo12")
    names = robot.v_names[6:]
    q = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 12))
    points = dn.JointTrajectory(names, np.array([0.0, 1.0]), q, *np.zeros((2, 2, 12)))
    at = robot.neutral()
    at[:7] = 0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5
    check = dn.check_trajectory(robot, points, q0=at, friction=False, backend="numpy")
    assert (check.q[:, :7] == at[:7]).all() and not check.qd[:, :6].any()
    expected = [oracle.inverse(*s) for s in zip(check.q[::9], check.qd[::9], check.qdd[::9], strict=True)]
    assert error(check.tau[::9], expected).max() <= EXACT
    assert {own.joint for own in check.margins} <= set(names)
    assert len(check.message()["points"][0]["effort"]) == 12
    assert any("base" in note for note in check.notes)
