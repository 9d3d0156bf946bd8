"""Replies of plan_stop without a node, against the library."""

from time import monotonic_ns

import numpy as np
import pytest
from five_bars import ALL, FIVE_BAR, QD, Q, closed
from plain import Served, serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from builtin_interfaces.msg import Time

import dynamics_node as dn
from dynamics_node.node.ros.messages import trajectory_message
from dynamics_node.node.services.services import Services
from dynamics_node.node.services.trajectory_service import trajectory_point

KIND = interfaces.PlanStop
REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
SPEED = np.array([1.5, 0.5, 0.0, -0.8, 0.0, 0.6, 0.0])


def call(served, names=(), q=(), qd=(), **fields):
    request = KIND.Request(**fields)
    request.state.joints.name = list(names)
    request.state.joints.position = [float(x) for x in q]
    request.state.joints.velocity = [float(x) for x in qd]
    return Services(lambda: served.core).callback(KIND)(request, KIND.Response())


@pytest.fixture
def panda7():
    return serve("panda7")


def assert_same(answer, stop):
    assert answer.success and np.isclose(answer.time, stop.time)
    assert (answer.joint, answer.quantity) == (stop.limit.joint, stop.limit.quantity)
    assert np.allclose((answer.value, answer.limit, answer.used), stop.limit[3:])
    assert answer.joint_names == list(stop.trajectory.names) == answer.solution.joint_names
    assert np.allclose(answer.distance, list(stop.distance.values()))
    assert np.allclose(answer.peak_effort, stop.check.peak_effort)
    points = answer.solution.points
    assert np.allclose([point.positions for point in points], stop.trajectory.q)
    assert np.allclose([point.velocities for point in points], stop.trajectory.qd)
    assert np.allclose([point.effort for point in points], stop.check.efforts)
    assert points[-1].time_from_start.nanosec == round(stop.time * 1e9)


def test_a_reply_is_that_of_the_library(panda7):
    robot = panda7.core.model
    panda7.core.set_payload("panda_hand", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
    loaded = dn.with_payload(robot, "panda_hand", 2.0, [0, 0, 0.1])
    stop = dn.stopping_trajectory(loaded, REST, SPEED, links=["panda_hand"], backend="numpy")
    answer = call(panda7, robot.v_names, REST, SPEED, links=["panda_hand"])
    assert_same(answer, stop)
    travel, moved = stop.links["panda_hand"], answer.displacement[0]
    assert answer.link_names == ["panda_hand"] and np.isclose(answer.path[0], travel.path)
    assert np.allclose((moved.x, moved.y, moved.z), travel.displacement)
    assert answer.message.startswith(f"stop of {stop.time:.4g} s; effort of")
    assert not answer.solution.points[0].accelerations
    panda7.core.set_payload("panda_hand", 0.0, np.zeros(3), np.zeros((3, 3)))


def test_accelerations_and_smooth_stops(panda7):
    names, qdd = list(panda7.core.model.v_names), np.array([1.0, -2.0, 0, 0, 0.5, 0, 0])
    for fields, own in (({"smooth": True}, np.zeros(7)), ({"accelerations": qdd.tolist()}, qdd)):
        stop = dn.stopping_trajectory(panda7.core.model, REST, SPEED, qdd=own, backend="numpy")
        answer = call(panda7, names, REST, SPEED, **fields)
        assert_same(answer, stop)
        assert np.allclose(answer.solution.points[0].accelerations, own)


def test_the_latest_state_and_limits(panda7):
    names = list(panda7.core.model.v_names)
    panda7.now = monotonic_ns()  # the clock of the service
    panda7.receive(names, REST, SPEED)
    limits = {"limited_joints": ["panda_joint4"], "max_deceleration": [2.0]}
    answer = call(panda7, **limits)
    assert answer.success and np.isclose(answer.time, 0.4, rtol=1e-3)
    assert (answer.joint, answer.quantity) == ("panda_joint4", "acceleration")
    answer = call(panda7, longest=0.3, **limits)
    assert not answer.success and "panda_joint4" in answer.message and "limit" in answer.message


def test_a_five_bar():
    served = Served(FIVE_BAR, settings(backend="numpy", effort_limits="list", effort_limits_list=[20.0] * 4))
    served.now = monotonic_ns()
    model = served.core.model
    q = np.zeros(model.nq)
    q[[model.q_names.index(name) for name in ALL]] = closed(Q)
    qd = dn.spanning(model, q, 4 * QD)[1]
    rates = dict(zip((body.joint.name for body in model.bodies), qd, strict=True))
    answer = call(served, ALL, closed(Q), [rates[name] for name in ALL])
    limits = {name: {"max_effort": 20.0} for name in model.v_names}
    assert_same(answer, dn.stopping_trajectory(model, q, 4 * QD, limits=limits, backend="numpy"))


def planned(robot):
    """A trajectory as a message, and as points."""
    time, still = np.array([0.0, 1.0, 2.0]), np.zeros(7)
    q = np.array([REST, REST + 0.4, REST + 0.6])
    rates = np.array([still, 0.5 + still, still])
    points = dn.JointTrajectory(robot.v_names, time, q, rates, np.full((3, 7), np.nan))
    message = trajectory_message(
        list(robot.v_names), [trajectory_point(*row, ()) for row in zip(time, q, rates, points.qdd, strict=True)],
        (Time(), ""),
    )  # fmt: skip
    return message, points


def test_a_stop_on_a_path(panda7):
    pytest.importorskip("toppra", reason="stops on a path: pip install toppra")
    message, points = planned(panda7.core.model)
    stop = dn.stop_on_path(panda7.core.model, points, 0.9, links=["panda_hand"], backend="numpy")
    answer = call(panda7, trajectory=message, begin=0.9, links=["panda_hand"])
    assert_same(answer, stop)
    assert np.isclose(answer.path[0], stop.links["panda_hand"].path)
    smooth = call(panda7, trajectory=message, begin=0.9, smooth=True)
    assert smooth.success and smooth.time > stop.time and not any(smooth.solution.points[-1].accelerations)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"begin": 3.0}, "from 0 s to 2 s"),
        ({"begin": float("nan")}, "begin"),
        ({"begin": 0.9, "accelerations": [0.0] * 7}, "accelerations belong"),
        ({"begin": 0.9, "limited_joints": ["panda_joint2"], "max_effort": [1.0]}, "effort of panda_joint2"),
    ],
)
def test_refusals_of_paths(panda7, fields, match):
    answer = call(panda7, trajectory=planned(panda7.core.model)[0], **fields)
    assert not answer.success and match in answer.message


@pytest.mark.parametrize(
    ("state", "fields", "match"),
    [
        ({"q": REST}, {}, "no velocities"),
        ({"q": REST, "qd": SPEED}, {"begin": 1.0}, "begin belongs to trajectory"),
        ({}, {"accelerations": [0.0] * 7}, "state.joints.name, which is empty"),
        ({"q": REST, "qd": SPEED}, {"accelerations": [0.0]}, "1 entries in accelerations"),
        ({"q": REST, "qd": SPEED}, {"longest": 1e9}, "longest"),
        ({"q": REST, "qd": SPEED}, {"longest": float("nan")}, "longest"),
        ({"q": REST, "qd": SPEED}, {"links": ["nose"]}, "nose"),
        ({"q": REST, "qd": SPEED}, {"limited_joints": ["nose"], "max_effort": [1.0]}, "nose"),
        ({}, {}, "never seen"),
    ],
)
def test_refusals(panda7, state, fields, match):
    names = panda7.core.model.v_names if state else ()
    answer = call(panda7, names, **state, **fields)
    assert not answer.success and match in answer.message
