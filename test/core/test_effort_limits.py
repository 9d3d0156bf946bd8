"""Limits of efforts by velocity, sign and window: curves against SciPy, checks against Pinocchio, searches."""

import numpy as np
import pytest
from cart_pole import CART
from cases import oracle_of
from robots import robot_of
from scipy.integrate import quad
from scipy.interpolate import interp1d
from scipy.optimize import brentq
from test_trajectory_check import path, without_positions

import dynamics_node as dn
from dynamics_node.errors import InputError
from dynamics_node.functions.effort_limits import effort_limits
from dynamics_node.io.motion_files import read_limits
from dynamics_node.trajectory.effort_windows import window_means
from dynamics_node.trajectory.motion_limits import joint_limits

SIGNED = [[-1.0, 70.0], [0.5, 60.0], [1.5, 40.0], [2.0, 5.0]]  # velocity, effort
LOW = [[-2.5, 0.0], [-1.0, -50.0], [1.0, -55.0]]


def curve(corners, sign=1):
    """The highest effort, or with -1 the lowest one, as a function of the velocity."""
    line = interp1d(*zip(*corners, strict=True), fill_value="extrapolate")
    most = max(sign * effort for _, effort in corners)
    return lambda velocity: sign * np.minimum(sign * line(velocity), most)


def motor(stall, no_load):
    return {"max_effort_at_velocity": [[0.0, stall], [no_load, 0.0]]}


# --- curves -------------------------------------------------------------------------------------------------


def test_a_dc_motor_in_four_quadrants():
    """Voltage and current are limited: tau = K i, u = R i + K qd."""
    K, R, u, i = 2.0, 0.5, 24.0, 30.0
    limits = effort_limits(np.array([K * i]), {0: ("motor", motor(K * u / R, u / K))})
    qd = np.linspace(-20, 20, 81)[:, None]
    low, high = limits.ranges(qd)
    currents = np.clip((np.stack([-u - K * qd, u - K * qd])) / R, -i, i)[..., 0]
    possible = ((-u - K * qd) / R <= i)[:, 0] & ((u - K * qd) / R >= -i)[:, 0]
    assert np.allclose([low[possible, 0], high[possible, 0]], K * currents[:, possible], atol=1e-12)
    tau = K * np.linspace(-i, i, 7)
    used = limits.used(tau[None, :, None], qd[:, None])
    voltages = np.abs(R * tau / K + K * qd)
    assert np.allclose(used[..., 0], np.maximum(voltages / u, np.abs(tau) / (K * i)))


@pytest.mark.parametrize("low", [None, LOW])
def test_curves_against_interpolation(low):
    more = {"max_effort_at_velocity": SIGNED} | ({"min_effort_at_velocity": low} if low else {})
    limits = effort_limits(np.array([np.inf, 65.0]), {1: ("j", more)})
    qd = np.linspace(-4, 4, 161)
    lowest, highest = limits.ranges(np.stack([qd, qd], axis=1))
    assert np.isinf([lowest[:, 0], highest[:, 0]]).all() and limits.limited.tolist() == [1]
    assert np.allclose(highest[:, 1], np.minimum(curve(SIGNED)(qd), 65))
    below = curve(low, -1)(qd) if low else -curve(SIGNED)(-qd)
    assert np.allclose(lowest[:, 1], np.maximum(below, -65))


def test_used_fractions_scale_velocity_and_effort():
    limits = effort_limits(
        np.array([65.0]), {0: ("j", {"max_effort_at_velocity": SIGNED, "min_effort_at_velocity": LOW})}
    )
    random = np.random.default_rng(3)
    for qd, tau in random.uniform(-1, 1, (40, 2, 1)) * [[4.0], [150.0]]:

        def beyond(used, qd=qd, tau=tau):
            low, high = limits.ranges(qd / used)
            return max(tau / used - high, low - tau / used)[0]

        assert np.isclose(limits.used(tau, qd)[0], brentq(beyond, 1e-3, 1e3))


def test_the_tightest_limit_and_both_signs():
    robot = robot_of("panda7")  # 87 N m
    more = {"panda_joint1": {"max_effort": 100.0}, "panda_joint2": {"min_effort": -40.0}}
    more |= {"panda_joint3": {"max_effort": 30.0, "min_effort": -90.0}, "panda_joint4": {"max_effort": 9.0}}
    low, high = joint_limits(robot, more).effort.ranges(np.zeros(7))
    assert low[:4].tolist() == [-87.0, -40.0, -87.0, -9.0]
    assert high[:4].tolist() == [87.0, 87.0, 30.0, 9.0]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ([[0, 1]], "two corners"),
        ([[0, 1, 2], [3, 4, 5]], "pairs"),
        ([[0, 1], [2, np.nan]], "finite"),
        ([[0, 1], [2]], "numbers"),
        ("fast", "numbers"),
        ([[1, 1], [0, 2]], "increasing"),
        ([[0, 5], [1, 2], [2, 1.9]], r"concave at \[1, 2\]"),
        ([[0, 0], [1, -1]], "velocity 0"),
    ],
)
def test_wrong_tables(tmp_path, table, match):
    file = tmp_path / "limits.yaml"
    with pytest.raises(InputError, match=f"knee.*{match}"):
        effort_limits(np.array([np.inf]), {0: ("knee", {"max_effort_at_velocity": table})})
    file.write_text(f"joint_limits: {{knee: {{max_effort_at_velocity: {table}}}}}")
    with pytest.raises(InputError, match=f"{file}.*knee.*{match}"):
        read_limits(file)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ("min_effort: 5", "min_effort of knee is not a negative number"),
        ("max_continuous_effort: -5", "max_continuous_effort of knee is not a positive number"),
        ("min_effort_at_velocity: [[-3, 0], [0, 9]]", "min_effort_at_velocity of knee.*below 0"),
    ],
)
def test_wrong_files(tmp_path, entries, match):
    file = tmp_path / "limits.yaml"
    file.write_text(f"joint_limits: {{knee: {{{entries}}}}}")
    with pytest.raises(InputError, match=f"{file}: {match}"):
        read_limits(file)


def test_files(tmp_path):
    file = tmp_path / "limits.yaml"
    file.write_text(
        "joint_limits:\n  a: {min_effort: -3.5, max_effort_at_velocity: [[0, 5], [2e0, .5]]}\n"
        "  b: {max_continuous_effort: 2, has_continuous_effort_limits: false}\n"
        "  c: {has_effort_limits: no, max_effort: 1, min_effort_at_velocity: [[0, -1], [1, -1]]}\n"
    )
    assert read_limits(file) == {
        "a": {"min_effort": -3.5, "max_effort_at_velocity": [[0.0, 5.0], [2.0, 0.5]]}, "b": {}, "c": {}
    }  # fmt: skip


# --- checks -------------------------------------------------------------------------------------------------


def beyond(name, check, lowest, highest):
    """How far the efforts of Pinocchio are beyond curves (nv functions), at all samples (s, nv)."""
    oracle, robot = oracle_of(name), robot_of(name)
    tau = np.array([oracle.inverse(*state) for state in zip(check.q, check.qd, check.qdd, strict=True)])
    tau += robot.damping * check.qd + robot.friction * np.tanh(check.qd / 0.01)
    velocities = check.qd.T
    high = np.stack([limit(qd) for limit, qd in zip(highest, velocities, strict=True)], axis=1)
    low = np.stack([limit(qd) for limit, qd in zip(lowest, velocities, strict=True)], axis=1)
    return np.maximum(tau - high, low - tau)


@pytest.mark.parametrize("seconds", [3.0, 1.4, 1.1])
def test_checks_against_pinocchio(seconds):
    robot = robot_of("panda7")
    tables = [[[0.0, 1.1 * e], [v, 0.4 * e], [1.3 * v, 0.0]] for v, e in zip(robot.velocity_limits, robot.effort_limits, strict=True)]  # fmt: skip
    limits = {name: {"max_effort_at_velocity": table} for name, table in zip(robot.v_names, tables, strict=True)}  # fmt: skip
    limits["panda_joint4"] |= {"min_effort_at_velocity": LOW}
    points = path(robot, seconds=seconds, seed=6, scale=0.3)
    check = dn.check_trajectory(without_positions(robot), points, limits=limits, rate=400, backend="numpy")
    highest = [lambda qd, t=t, e=e: np.minimum(curve(t)(qd), e) for t, e in zip(tables, robot.effort_limits, strict=True)]  # fmt: skip
    lowest = [lambda qd, high=high: -high(-qd) for high in highest]
    lowest[3] = lambda qd: np.maximum(curve(LOW, -1)(qd), -robot.effort_limits[3])
    over = beyond("panda7", check, lowest, highest)
    margins = {margin.joint: margin for margin in check.margins if margin.quantity == "effort"}
    assert len(margins) == 7
    assert any((over > 0).any(axis=0)) == (seconds < 2)
    for v, margin in enumerate(margins[name] for name in robot.v_names):
        assert (margin.used > 1) == (over[:, v].max() > 0)
        at = np.flatnonzero(check.time == margin.time)
        sides = [side[v](check.qd[at, v]) for side in (lowest, highest)]
        assert np.isclose(margin.limit, sides).any() and np.isclose(check.tau[at, v], margin.value).any()


def test_limits_of_one_sign_by_hand():
    """Cart of 2 kg with a pole of 0.5 kg, accelerated as one to the right and back."""
    robot = dn.parse_robot(CART)
    mass = float(dn.evaluate(robot, "mass_matrix", np.zeros(2), backend="numpy")[0, 0])
    points = {"joint_names": ["slide"], "points": [
        {"time_from_start": t, "positions": [x], "velocities": [0.0], "accelerations": [0.0]} for t, x in ((0, 0), (1, 0.3), (2, 0))
    ]}  # fmt: skip
    most = float(np.abs(dn.check_trajectory(robot, points, backend="numpy").qdd).max() * mass)
    for bounds, feasible in (({"min_effort": -0.9 * most}, False), ({"min_effort": -1.01 * most}, True)):
        limits = {"slide": {"max_effort": 2 * most, **bounds}}
        check = dn.check_trajectory(robot, points, limits=limits, friction=False, backend="numpy")
        assert check.feasible == feasible
        (margin,) = [m for m in check.margins if (m.joint, m.quantity) == ("slide", "effort")]
        assert np.isclose(margin.limit, bounds["min_effort"]) and np.isclose(margin.value, -most, rtol=1e-3)


def smallest_slowdown(robot, points, limits, **options):
    """By bisection: feasible motions are those of all larger factors here."""

    def feasible(factor):
        check = dn.check_trajectory(robot, points.slowed(factor), limits=limits, backend="numpy", **options)
        return check.feasible

    low, high = 1.0, 8.0
    assert not feasible(low) and feasible(high)
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


LIMITS = {
    "curve": {"panda_joint1": motor(60.0, 1.0), "panda_joint4": motor(40.0, 0.8)},
    "sign": {"panda_joint2": {"min_effort": -50.0, "max_effort": 15.0}},
    "continuous": {"panda_joint2": {"max_continuous_effort": 23.0}},
    "all": {"panda_joint1": motor(60.0, 1.0) | {"max_continuous_effort": 1.5, "max_effort": 33.0}},
}


@pytest.mark.parametrize("kind", LIMITS)
def test_slowdowns_by_bisection(kind):
    robot, options = without_positions(robot_of("panda7")), {"thermal_window": 0.6, "rate": 200}
    points = path(robot, seconds=1.0, seed=6, scale=0.3)
    check = dn.check_trajectory(robot, points, limits=LIMITS[kind], backend="numpy", **options)
    slowdown = check.slowdown
    assert (
        slowdown.limit.quantity == ("continuous_effort" if kind == "continuous" else "effort")
        or kind == "all"
    )
    best = smallest_slowdown(robot, points, LIMITS[kind], **options)
    assert np.isclose(slowdown.factor, best, rtol=2e-3)
    assert check.slowed().feasible and np.isclose(slowdown.limit.used, 1, atol=1e-6)


@pytest.mark.parametrize("kind", LIMITS)
def test_payloads_by_bisection(kind):
    robot, options = without_positions(robot_of("panda7")), {"thermal_window": 0.6, "rate": 200}
    points, com = path(robot, seconds=5.0, seed=6, scale=0.2), [0.0, 0.0, 0.1]
    limits = LIMITS[kind] | {"panda_joint2": {"min_effort": -80.0, "max_continuous_effort": 45.0}} if kind == "all" else LIMITS[kind]  # fmt: skip
    if kind == "sign":
        limits = {"panda_joint2": {"min_effort": -45.0, "max_effort": 80.0}}
    mass = dn.check_trajectory(robot, points, limits=limits, backend="numpy", **options).largest_payload("panda_hand", com)  # fmt: skip
    assert 0 < mass < 20
    for factor, feasible in ((0.999, True), (1.001, False)):
        loaded = dn.with_payload(robot, "panda_hand", factor * mass, com)
        check = dn.check_trajectory(loaded, points, limits=limits, backend="numpy", **options)
        assert check.feasible == feasible


def test_windows_that_begin_between_samples():
    """Exact for values that are linear between samples, with a jump at 1 s."""
    time, values = np.array([0.0, 1.0, 1.0, 3.0, 4.0]), np.array([0.0, 2.0, -1.0, 3.0, 3.0])
    ends, means = window_means(time, values[:, None], 1.5)
    lines = interp1d(time + np.array([0, -1e-12, 1e-12, 0, 0]), values)
    expected = [quad(lines, end - 1.5, end, points=[1.0, 3.0], epsabs=1e-11)[0] / 1.5 for end in ends]
    assert ends.tolist() == [3.0, 4.0] and np.allclose(means[:, 0], expected, atol=1e-9)


@pytest.mark.parametrize("window", [0.3, 0.7, 5.0])
def test_continuous_efforts_against_quadrature(window):
    """A cart along sines: the root mean square of the torques over every window."""
    robot, w = dn.parse_robot(CART), 3.0
    time = np.linspace(0, 2, 401)
    x = 0.1 * np.sin(w * time) + 0.02 * np.sin(5 * w * time)
    v = 0.1 * w * np.cos(w * time) + 0.1 * w * np.cos(5 * w * time)
    a = -0.1 * w**2 * np.sin(w * time) - 0.5 * w**2 * np.sin(5 * w * time)
    points = dn.JointTrajectory(("slide",), time, x[:, None], v[:, None], a[:, None])
    limits = {"slide": {"max_continuous_effort": 1.0}}
    check = dn.check_trajectory(
        robot, points, limits=limits, friction=False, thermal_window=window, rate=1000, backend="numpy"
    )
    mass = float(dn.evaluate(robot, "mass_matrix", np.zeros(2), backend="numpy")[0, 0])

    def square(t):
        return (mass * w**2 * (0.1 * np.sin(w * t) + 0.5 * np.sin(5 * w * t))) ** 2

    span = min(window, 2.0)
    ends = np.linspace(span, 2.0, 101) if window < 2 else [2.0]
    loads = [np.sqrt(quad(square, end - span, end, limit=200)[0] / span) for end in ends]
    (margin,) = [m for m in check.margins if m.quantity == "continuous_effort"]
    assert np.isclose(margin.value, max(loads), rtol=1e-3) and margin.limit == 1.0
    assert np.isclose(margin.time, ends[int(np.argmax(loads))], atol=0.02)
    assert np.isclose(margin.value, check.thermal_effort[0], rtol=1e-12)
