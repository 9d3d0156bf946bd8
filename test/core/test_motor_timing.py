"""Times of paths and stops within limits of motors, against closed forms of one axis, and Pinocchio."""

import numpy as np
import pytest
from robots import robot_of
from scipy.optimize import brentq
from test_effort_limits import beyond, curve, motor

import dynamics_node as dn

REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
MASS, LENGTH = 2.0, 0.8
AXIS = f"""<robot name="axis"><link name="base"/><link name="cart"><inertial><mass value="{MASS}"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="x" type="prismatic"><parent link="base"/><child link="cart"/><axis xyz="1 0 0"/>
<limit lower="-9" upper="9" velocity="20" effort="100"/></joint></robot>"""
STALL, FAST, MOST = 30.0, 2.0, 12.0  # N, m/s, N


def along(entries, length=LENGTH, **more):
    """The time-optimal motion of the axis."""
    still = np.zeros((2, 1))
    points = dn.JointTrajectory(("x",), np.array([0.0, 1.0]), np.array([[0.0], [length]]), still, still)
    limits = {"x": entries}
    return dn.scale_trajectory(dn.parse_robot(AXIS), points, limits=limits, backend="numpy", **more)


def rise(speed):
    """Time and way to a speed with a motor: first by its peak, then along the line to its no-load speed."""
    knee, slope = FAST * (1 - MOST / STALL), STALL / (FAST * MASS)
    low = min(speed, knee)
    time, way = low * MASS / MOST, 0.5 * low**2 * MASS / MOST
    if speed > knee:
        last = np.log((FAST - knee) / (FAST - speed)) / slope
        time, way = time + last, way + FAST * last - (speed - knee) / slope
    return time, way


@pytest.mark.parametrize("length", [0.1, 0.8, 5.0])
def test_the_fastest_motion_of_a_dc_motor(length):
    """It brakes with its peak: the back-EMF helps."""
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")

    def missing(speed):
        return rise(speed)[1] + 0.5 * speed**2 * MASS / MOST - length

    speed = brentq(missing, 1e-3, FAST * (1 - 1e-12))
    expected = rise(speed)[0] + speed * MASS / MOST
    fast = along(motor(STALL, FAST) | {"max_effort": MOST}, length)
    assert fast.feasible and np.isclose(fast.time[-1], expected, rtol=2e-3)
    assert fast.time[-1] >= expected * (1 - 1e-6)


def test_the_fastest_motion_with_unequal_signs():
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    for upper, lower in ((12.0, 4.0), (4.0, 12.0)):
        fast = along({"max_effort": upper, "min_effort": -lower})
        inverse = MASS / upper + MASS / lower  # T = v (m / F + m / B), L = v^2 / 2 (m / F + m / B)
        assert fast.feasible and np.isclose(fast.time[-1], np.sqrt(2 * LENGTH * inverse), rtol=2e-3)


def test_continuous_efforts_stretch_the_fastest_motion():
    """The root mean square of bang-bang forces is the force, and falls with the square of the time."""
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    entries = {"max_effort": MOST, "max_continuous_effort": 3.0}
    bang = 2 * np.sqrt(LENGTH * MASS / MOST)
    fast = along(entries)
    assert fast.feasible and np.isclose(fast.time[-1], 2 * bang, rtol=5e-3)
    assert np.isclose(fast.rms_effort[0], 3.0, rtol=1e-3)
    assert np.isclose(along(entries, thermal_window=100.0).time[-1], fast.time[-1])
    assert along(entries, length=8.0, thermal_window=0.5).thermal_effort[0] <= 3.0 * (1 + 1e-6)


def test_limited_effort_rates_and_a_motor():
    """At most as fast as without a limit of rates, and close to it if they are large."""
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    entries = motor(STALL, FAST) | {"max_effort": MOST}
    fast, smooth = along(entries), along(entries | {"max_effort_rate": 1000.0})
    assert smooth.feasible and fast.time[-1] <= smooth.time[-1] <= 1.06 * fast.time[-1]


def test_an_arm_with_motors_is_at_a_limit_all_the_time():
    from test_path_timing import spline

    robot = robot_of("panda7")
    tables = [[[0.0, 1.2 * e], [0.8 * v, 0.0]] for v, e in zip(robot.velocity_limits, robot.effort_limits, strict=True)]  # fmt: skip
    limits = {name: {"max_effort_at_velocity": table} for name, table in zip(robot.v_names, tables, strict=True)}  # fmt: skip
    limits["panda_joint4"]["min_effort"] = -20.0
    points = spline(robot.v_names, REST)
    fast, slow = (
        dn.scale_trajectory(robot, points, method=own, limits=limits, backend="numpy")
        for own in ("time_optimal", "uniform")
    )
    assert fast.feasible and fast.time[-1] < 0.9 * slow.time[-1]
    used = np.array([m.used for m in fast.margins if m.quantity == "effort"])
    assert used.max() > 0.999
    highest = [lambda qd, t=t, e=e: np.minimum(curve(t)(qd), e) for t, e in zip(tables, robot.effort_limits, strict=True)]  # fmt: skip
    lowest = [lambda qd, high=high: -high(-qd) for high in highest]
    lowest[3] = lambda qd: np.maximum(-highest[3](-qd), -20.0)
    over = beyond("panda7", fast, lowest, highest) / robot.effort_limits
    assert over.max() <= 1e-5
    assert np.mean(over.max(axis=1) >= -0.02) >= 0.9  # of the samples


# --- stops --------------------------------------------------------------------------------------------------


def test_stops_of_one_axis():
    """Constant forces m v / T: within the lower limit at the speed, which a drive without a brake resistor
    has in full at rest only."""
    robot = dn.parse_robot(AXIS)
    for sign in (1, -1):
        entries = {"max_effort_at_velocity": [[-3.0, 3.0], [0.0, 12.0], [3.0, 0.0]]}
        stop = dn.stopping_trajectory(robot, [0.0], [2.0 * sign], limits={"x": entries}, backend="numpy")
        assert np.isclose(stop.time, MASS * 2.0 / 6.0, rtol=1e-3)  # 6 N at 2 m/s
        assert (stop.limit.joint, stop.limit.quantity) == ("x", "effort")
        assert np.isclose(abs(stop.limit.limit), 6.0, rtol=1e-2)
        entries = {"max_effort": 12.0, "min_effort": -4.0, "max_continuous_effort": 0.01}
        stop = dn.stopping_trajectory(robot, [0.0], [2.0 * sign], limits={"x": entries}, backend="numpy")
        assert np.isclose(stop.time, MASS * 2.0 / (4.0 if sign > 0 else 12.0), rtol=1e-3)


def test_stops_on_a_path():
    """m dv/dt = -(12 - 3 v): in a time of m / 3 log(12 / (12 - 3 v))."""
    pytest.importorskip("toppra", reason="stops on a path: pip install toppra")
    robot, time = dn.parse_robot(AXIS), np.array([0.0, 1.0, 2.0])
    for sign in (1, -1):
        points = dn.JointTrajectory(
            ("x",), time, 2.0 * sign * time[:, None], np.full((3, 1), 2.0 * sign), np.full((3, 1), np.nan)
        )
        entries = {"max_effort_at_velocity": [[-3.0, 3.0], [0.0, 12.0], [3.0, 0.0]]}
        entries |= {"max_continuous_effort": 0.01}
        stop = dn.stop_on_path(robot, points, 0.4, limits={"x": entries}, backend="numpy")
        expected = MASS / 3 * np.log(2)
        assert stop.check.feasible and expected * (1 - 1e-6) <= stop.time <= 1.01 * expected
        entries = {"max_effort": 12.0, "min_effort": -4.0}
        stop = dn.stop_on_path(robot, points, 0.4, limits={"x": entries}, backend="numpy")
        assert np.isclose(stop.time, MASS * 2.0 / (4.0 if sign > 0 else 12.0), rtol=1e-3)


def test_stops_of_an_arm_by_pinocchio():
    """A stop keeps the limits at its samples, and one of 0.99 of its time does not."""
    robot, random = robot_of("panda7"), np.random.default_rng(8)
    tables = [[[-0.9 * v, 0.3 * e], [0.0, 0.9 * e], [v, 0.2 * e]] for v, e in zip(robot.velocity_limits, robot.effort_limits, strict=True)]  # fmt: skip
    limits = {name: {"max_effort_at_velocity": table} for name, table in zip(robot.v_names, tables, strict=True)}  # fmt: skip
    highest = [curve(table) for table in tables]
    lowest = [lambda qd, high=high: -high(-qd) for high in highest]
    for _ in range(3):
        q, qd = REST + random.uniform(-0.2, 0.2, 7), 0.7 * robot.velocity_limits * random.uniform(-1, 1, 7)
        stop = dn.stopping_trajectory(robot, q, qd, limits=limits, backend="numpy")
        assert beyond("panda7", stop.check, lowest, highest).max() <= 1e-3
        faster = stop.trajectory.slowed(0.99)
        check = dn.check_trajectory(robot, faster, limits=limits, q0=q, rate=1000, backend="numpy")
        assert beyond("panda7", check, lowest, highest).max() > 0


def test_a_table_of_stops():
    """The same forces; the speeds must be sustained."""
    robot = dn.parse_robot(AXIS)
    entries = {"max_effort_at_velocity": [[-3.0, 3.0], [0.0, 12.0], [3.0, 0.0]]}
    table = dn.stopping_table(
        robot, qd=[2.0], positions=np.zeros((1, 1)), limits={"x": entries}, backend="numpy"
    )
    assert np.isclose(table.rows[0].deceleration, 6.0 / MASS, rtol=5e-3) and table.excluded == 0
