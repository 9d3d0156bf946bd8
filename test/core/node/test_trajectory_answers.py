"""Replies of check_trajectory and scale_trajectory without a node, against the library."""

import sys
from time import monotonic_ns

import numpy as np
import pytest
from cart_pole import CART
from five_bars import ALL, DRIVEN, FIVE_BAR, Q, closed
from plain import Served, serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from geometry_msgs.msg import Point
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import dynamics_node as dn
from dynamics_node.node.services import trajectory_service
from dynamics_node.node.services.services import Services

KIND, SCALE = interfaces.CheckTrajectory, interfaces.ScaleTrajectory
REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def trajectory(names, time, q, qd=None, qdd=None):
    message = JointTrajectory(joint_names=list(names))
    for k, t in enumerate(time):
        point = JointTrajectoryPoint(positions=[float(x) for x in q[k]])
        for field, rows in (("velocities", qd), ("accelerations", qdd)):
            if rows is not None:
                setattr(point, field, [float(x) for x in rows[k]])
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(t * 1e9), 10**9)
        message.points.append(point)
    return message


def call(served, message, names=(), q=(), kind=KIND, **fields):
    request = kind.Request(trajectory=message, **fields)
    request.state.joints.name, request.state.joints.position = list(names), [float(x) for x in q]
    return Services(lambda: served.core).callback(kind)(request, kind.Response())


def swing(names, end, seconds=1.0):
    end = np.asarray(end, dtype=float)
    return trajectory(names, [0.0, seconds], [REST, end], np.zeros((2, 7)), np.zeros((2, 7)))


@pytest.fixture
def panda7():
    return serve("panda7")


def test_a_reply_is_that_of_the_library(panda7):
    robot = panda7.core.model
    message = swing(robot.v_names, REST + 0.6, 0.6)
    check = dn.check_trajectory(robot, message, thermal_window=0.2, backend="numpy")
    answer = call(panda7, message, window=0.2, payload_link="panda_hand", payload_com=Point(z=0.1))
    assert answer.success and answer.feasible == check.feasible
    worst = check.worst
    assert (answer.joint, answer.quantity) == (worst.joint, worst.quantity)
    assert np.allclose((answer.time, answer.value, answer.limit, answer.used), worst[2:])
    assert np.isclose(answer.slowdown, check.slowdown.factor) and answer.at_rest == check.slowdown.at_rest
    assert answer.joint_names == list(robot.v_names)
    for name in ("peak_effort", "rms_effort", "thermal_effort", "peak_power", "energy"):
        assert np.allclose(getattr(answer, name), getattr(check, name))
    assert np.isclose(answer.peak_total_power, check.peak_total_power)
    assert np.isclose(answer.largest_payload, check.largest_payload("panda_hand", [0, 0, 0.1]))
    assert np.allclose([point.effort for point in answer.solution.points], check.efforts)
    assert answer.message.startswith("feasible" if check.feasible else "infeasible")


def test_payloads_and_friction_of_the_node_count(panda7):
    robot = panda7.core.model
    message = swing(robot.v_names, REST + 0.3)
    panda7.core.set_payload("panda_hand", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
    loaded = dn.with_payload(robot, "panda_hand", 2.0, [0, 0, 0.1])
    for friction in (True, False):
        answer = call(panda7, message, friction=friction)
        check = dn.check_trajectory(loaded, message, friction=friction, backend="numpy")
        assert np.allclose(answer.peak_effort, check.peak_effort) and np.isnan(answer.largest_payload)
    first = call(panda7, message, payload_link="panda_hand").largest_payload
    panda7.core.set_payload("panda_hand", 0.0, np.zeros(3), np.zeros((3, 3)))
    bare = call(panda7, message, payload_link="panda_hand").largest_payload
    assert first < bare and first > 0


def test_limits_of_request_and_parameters():
    served = Served(CART, settings(backend="numpy"))
    message = trajectory(["slide"], [0.0, 0.5], [[0.0], [0.3]], np.zeros((2, 1)))
    state = {"names": ["slide", "hinge"], "q": [0.0, 0.1]}
    assert call(served, message, **state).feasible
    limits = {"limited_joints": ["slide"], "max_acceleration": [3.0]}
    answer = call(served, message, **state, **limits)
    assert not answer.feasible and answer.quantity == "acceleration" and np.isclose(answer.used, 7.2 / 3)
    assert np.isclose(answer.slowdown, np.sqrt(7.2 / 3))
    answer = call(served, message, **state, limited_joints=["slide"], max_acceleration=[3.0, 4.0])
    assert not answer.success and "max_acceleration" in answer.message
    served.use(effort_limits="list", effort_limits_list=[10.0, 5.0])
    answer = call(served, message, **state)
    assert not answer.feasible and (answer.joint, answer.quantity, abs(answer.limit)) == (
        "slide",
        "effort",
        10.0,
    )


def test_limits_of_a_file(tmp_path):
    """Also those of the request count, for both signs."""
    file = tmp_path / "limits.yaml"
    file.write_text(
        "joint_limits: {slide: {min_effort: -9.0, max_effort_at_velocity: [[0, 30], [2, 0]]}, "
        "hinge: {max_continuous_effort: 0.5}}"
    )
    served = Served(CART, settings(backend="numpy", limits_file=str(file)))
    message = trajectory(["slide"], [0.0, 0.5], [[0.0], [0.3]], np.zeros((2, 1)))
    for own, lowest in (({}, -9.0), ({"max_effort": [20.0]}, -9.0), ({"max_effort": [7.0]}, -7.0)):
        own = own and own | {"limited_joints": ["slide"]}
        answer = call(served, message, ["slide", "hinge"], [0.0, 0.1], **own)
        assert (answer.joint, answer.quantity, answer.feasible) == ("slide", "effort", False)
        assert abs(answer.limit) == -lowest
        slide = {"max_effort_at_velocity": [[0, 30], [2, 0]], "min_effort": lowest}
        slide |= {"max_effort": own["max_effort"][0]} if own else {}
        limits = {"slide": slide, "hinge": {"max_continuous_effort": 0.5}}
        check = dn.check_trajectory(served.core.model, message, q0=[0.0, 0.1], limits=limits, backend="numpy")
        assert np.isclose(answer.slowdown, check.slowdown.factor)


def test_omitted_joints_rest_at_the_state():
    served = Served(CART, settings(backend="numpy"))
    message = trajectory(["slide"], [0.0, 1.0], [[0.0], [0.1]], np.zeros((2, 1)))
    answer = call(served, message)
    assert not answer.success and "hinge" in answer.message
    check = dn.check_trajectory(served.core.model, message, q0=[0.0, 0.7], backend="numpy")
    assert np.allclose(call(served, message, ["slide", "hinge"], [0.0, 0.7]).peak_effort, check.peak_effort)
    served.now = monotonic_ns()  # the clock of the service
    served.receive(["slide", "hinge"], [0.0, 0.7], [0.0, 0.0])
    assert np.allclose(call(served, message).peak_effort, check.peak_effort)


def test_a_five_bar():
    served = Served(FIVE_BAR, settings(backend="numpy"))
    served.now = monotonic_ns()
    served.receive(ALL, closed(Q), [0.0] * 4)
    message = trajectory(DRIVEN, [0.0, 1.0], [Q, Q + 0.2], np.zeros((2, 2)), np.zeros((2, 2)))
    answer = call(served, message)
    robot = served.core.model
    at = np.zeros(robot.nq)
    at[[robot.q_names.index(name) for name in ALL]] = closed(Q)
    check = dn.check_trajectory(robot, message, q0=at, backend="numpy")
    assert answer.success and np.allclose(answer.peak_effort, check.peak_effort)
    assert np.allclose([point.effort for point in answer.solution.points], check.efforts)


def test_a_five_bar_that_opens():
    served = Served(FIVE_BAR, settings(backend="numpy"))
    served.now = monotonic_ns()
    served.receive(ALL, closed(Q), [0.0] * 4)
    message = trajectory(DRIVEN, [0.0, 1.0, 2.0], [Q, Q + 0.1, [3.0, 0.1]], np.zeros((3, 2)))
    answer = call(served, message)
    assert (
        not answer.success
        and "at 2 s: " in answer.message
        and served.core.model.constraints[0].name in answer.message
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m.points.clear(), "no points"),
        (lambda m: m.joint_names.__setitem__(0, "knee"), "knee"),
        (lambda m: m.points[1].positions.pop(), "point 1"),
        (lambda m: setattr(m.points[0], "positions", []), "point 0"),
        (lambda m: m.points[0].positions.__setitem__(0, float("nan")), "point 0"),
        (lambda m: setattr(m.points[1].time_from_start, "sec", 0), "point 1"),
        (lambda m: setattr(m.points[1].time_from_start, "sec", 2_000_000_000), "lower rate"),
    ],
)
def test_wrong_requests(panda7, change, match):
    message = swing(panda7.core.model.v_names, REST + 0.3)
    change(message)
    answer = call(panda7, message)
    assert not answer.success and match in answer.message


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"payload_link": "tool"}, "tool"),
        ({"window": -1.0}, "window"),
        ({"rate": float("nan")}, "rate"),
        ({"limited_joints": ["knee"], "max_effort": [1.0]}, "knee"),
        ({"limited_joints": ["panda_joint1"], "max_effort": [-1.0]}, "max_effort"),
    ],
)
def test_wrong_fields(panda7, fields, match):
    for kind in (KIND, SCALE):
        if "payload_link" not in fields or kind is KIND:
            answer = call(panda7, swing(panda7.core.model.v_names, REST + 0.3), kind=kind, **fields)
            assert not answer.success and match in answer.message


# --- scale_trajectory ---------------------------------------------------------------------------------------


def same_points(solution, points):
    for field, rows in (("positions", points.q), ("velocities", points.qd)):
        assert np.allclose([getattr(point, field) for point in solution.points], rows)
    times = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in solution.points]
    assert np.allclose(times, points.time, rtol=0, atol=1e-9)


def test_a_scaled_trajectory_is_that_of_the_library(panda7):
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    robot = panda7.core.model
    panda7.core.set_payload("panda_hand", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
    loaded = dn.with_payload(robot, "panda_hand", 2.0, [0, 0, 0.1])
    message = swing(robot.v_names, REST + 0.6, 0.6)
    message.header.frame_id = "world"
    limits = {"panda_joint1": {"max_acceleration": 6.0}}
    answer = call(
        panda7, message, kind=SCALE, limited_joints=["panda_joint1"], max_acceleration=[6.0], rate=50.0
    )
    assert answer.success, answer.message
    scaled = dn.scale_trajectory(loaded, message, limits=limits, rate=50.0, backend="numpy")
    same_points(answer.solution, scaled.trajectory)
    assert answer.solution.joint_names == list(robot.v_names)
    assert answer.solution.header.frame_id == "world"
    assert np.allclose([point.effort for point in answer.solution.points], scaled.efforts)
    assert answer.used <= 1 + 1e-6 and np.isclose(answer.used, scaled.worst.used)
    assert np.isclose(answer.factor, scaled.time[-1] / 0.6) and np.allclose(answer.energy, scaled.energy)
    # the reply is executable: the check finds the same of it
    again = call(panda7, answer.solution, limited_joints=["panda_joint1"], max_acceleration=[6.0], rate=50.0)
    assert again.feasible and np.allclose(again.peak_effort, answer.peak_effort, rtol=1e-4)


def test_a_uniform_factor(panda7):
    robot = panda7.core.model
    message = swing(robot.v_names, REST + 0.6, 0.3)
    answer = call(panda7, message, kind=SCALE, method="uniform")
    slowed = dn.check_trajectory(robot, message, backend="numpy").slowed()
    assert answer.success and np.isclose(answer.factor, slowed.time[-1] / 0.3) and answer.factor > 1
    same_points(answer.solution, slowed.trajectory)
    assert np.allclose([p.accelerations for p in answer.solution.points], slowed.trajectory.qdd)


def test_limits_of_effort_rates(panda7):
    names = list(panda7.core.model.v_names)
    message = swing(names, REST + 0.3, 0.2)
    limits = {"limited_joints": names, "max_effort_rate": [2000.0] * 7}
    answer = call(panda7, message, kind=SCALE, method="uniform", **limits)
    assert answer.success and (answer.quantity, round(answer.used, 5)) == ("effort_rate", 1.0)
    assert call(panda7, answer.solution, **limits).feasible
    answer = call(panda7, message, **limits)
    assert not answer.feasible and answer.quantity == "effort_rate"


def test_limits_of_deceleration_and_jerk():
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    served = Served(CART, settings(backend="numpy"))
    message = trajectory(["slide"], [0.0, 1.0], [[-0.2], [0.2]], np.zeros((2, 1)), np.zeros((2, 1)))
    state = {"names": ["slide", "hinge"], "q": [0.0, 0.3], "friction": False}
    for field in ("max_deceleration", "max_jerk"):
        limits = {"limited_joints": ["slide"], field: [2.0]}
        quantity = {"max_jerk": "jerk", "max_deceleration": "acceleration"}[field]
        answer = call(served, message, **state, **limits)
        assert not answer.feasible and (answer.joint, answer.quantity) == ("slide", quantity)
        options = {"q0": [0.0, 0.3], "limits": {"slide": {field: 2.0}}, "friction": False, "backend": "numpy"}
        expected = dn.scale_trajectory(served.core.model, message, **options)
        scaled = call(served, message, **state, **limits, kind=SCALE)
        assert scaled.success and np.isclose(scaled.factor, expected.time[-1])


def test_a_scaled_five_bar():
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    served = Served(FIVE_BAR, settings(backend="numpy"))
    served.now = monotonic_ns()
    served.receive(ALL, closed(Q), [0.0] * 4)
    message = trajectory(DRIVEN, [0.0, 1.0], [Q, Q + 0.2], np.zeros((2, 2)), np.zeros((2, 2)))
    limits = {"limited_joints": list(DRIVEN), "max_effort": [40.0, 40.0], "max_velocity": [3.0, 3.0]}
    answer = call(served, message, kind=SCALE, **limits)
    assert answer.success and answer.factor < 1 and answer.used <= 1 + 1e-6, answer.message
    assert call(served, answer.solution, **limits).feasible


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"method": "fastest"}, "fastest"),
        ({"limited_joints": ["panda_joint2"], "max_effort": [5.0]}, "effort of panda_joint2 at 1 s is -"),
        ({"method": "uniform", "limited_joints": ["panda_joint2"], "max_effort": [5.0]}, "panda_joint2"),
        ({"rate": 1e7}, "lower rate"),
    ],
)
def test_impossible_times(panda7, fields, match):
    answer = call(panda7, swing(panda7.core.model.v_names, REST + 0.3), kind=SCALE, **fields)
    assert not answer.success and match in answer.message


def test_time_optimal_requests_are_bounded_before_the_computation(panda7, monkeypatch):
    """By their points, and by those of the result; not by the given times."""
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    names, most = list(panda7.core.model.v_names), 400
    monkeypatch.setattr(trajectory_service, "MAX_OPTIMIZED", 7 * most)
    for seconds in (0.1, 1.0, 100.0):
        answer = call(panda7, swing(names, REST + 0.3, seconds), kind=SCALE)
        assert answer.success and len(answer.solution.points) <= 120
    slow = {"limited_joints": names, "max_velocity": [0.05] * 7}
    answer = call(panda7, swing(names, REST + 0.3, 0.9), kind=SCALE, **slow)
    assert not answer.success and "lower rate" in answer.message
    assert call(panda7, swing(names, REST + 0.3, 0.9), kind=SCALE, rate=20.0, **slow).success
    time = np.linspace(0, 1, most + 1)
    many = trajectory(names, time, REST + 0.3 * time[:, None], np.full((most + 1, 7), 0.3))
    monkeypatch.setattr(trajectory_service, "scaled", None)
    answer = call(panda7, many, kind=SCALE)
    assert not answer.success and "401 samples" in answer.message


def test_lines_have_no_optimal_times(panda7):
    message = trajectory(panda7.core.model.v_names, [0.0, 1.0], [REST, REST + 0.3])
    answer = call(panda7, message, kind=SCALE)
    assert not answer.success and "velocities" in answer.message


def test_an_absent_toppra_is_reported(panda7, monkeypatch):
    monkeypatch.setitem(sys.modules, "toppra.algorithm", None)
    message = swing(panda7.core.model.v_names, REST + 0.3)
    answer = call(panda7, message, kind=SCALE)
    assert not answer.success and "pip install" in answer.message and "uniform" in answer.message
    assert call(panda7, message, kind=SCALE, method="uniform").success
