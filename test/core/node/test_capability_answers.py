"""Replies of get_capability without a node, against the library."""

from time import monotonic_ns

import numpy as np
import pytest
from five_bars import ALL, FIVE_BAR, Q, closed
from plain import Served, serve, settings
from robots import robot_of

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from geometry_msgs.msg import Vector3
from test_trajectory_answers import trajectory

import dynamics_node as dn
from dynamics_node.node.services import capability_service
from dynamics_node.node.services.services import Services

KIND = interfaces.GetCapability
PATH = np.array([[0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [0.3, -0.2, 0.1, -1.8, 0.2, 1.4, 0.5]])
DIRECTIONS = np.array([[0.0, 0.0, 2.0], [1.0, -1.0, 0.0]])


def call(served, names=(), q=(), directions=DIRECTIONS, **fields):
    request = KIND.Request(directions=[Vector3(x=x, y=y, z=z) for x, y, z in directions], **fields)
    request.state.joints.name, request.state.joints.position = list(names), [float(x) for x in q]
    return Services(lambda: served.core).callback(KIND)(request, KIND.Response())


def table(matrix):
    return np.reshape(matrix.data, (matrix.rows, matrix.cols))


@pytest.mark.parametrize("at_once", [1, 500])
def test_a_path_with_a_payload(at_once, monkeypatch):
    """Also in parts."""
    monkeypatch.setattr(capability_service, "AT_ONCE", at_once)
    served = serve("panda7")
    served.core.set_payload("panda_hand", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
    robot = served.core.model
    qd, qdd = np.full((2, 7), 0.2), np.full((2, 7), -0.5)
    message = trajectory(robot.v_names, [0.0, 1.0], PATH, qd, qdd)
    fields = {"limited_joints": ["panda_joint2"], "max_effort": [60.0], "reference": "body"}
    answer = call(served, robot.v_names, PATH[0], points=message, link="panda_hand", vertices=True, **fields)
    assert answer.success, answer.message
    loaded = dn.with_payload(robot_of("panda7"), "panda_hand", 2.0, [0, 0, 0.1])
    limits, options = {"panda_joint2": {"max_effort": 60.0}}, {"reference": "body", "backend": "numpy"}
    found = dn.capability(loaded, "panda_hand", PATH, qd, qdd, limits=limits, **options)
    assert answer.force.row_names == ["state 0", "state 1"] and answer.header.frame_id == robot.base_link
    for k, u in enumerate(DIRECTIONS):
        assert np.allclose(table(answer.force)[:, k], found.force.along(u))
        assert np.allclose(table(answer.acceleration)[:, k], found.acceleration.along(u))
        expected = dn.effective_mass(loaded, "panda_hand", PATH, u, **options)
        assert np.allclose(table(answer.effective_mass)[:, k], expected)
    moves = dn.manipulability(loaded, "panda_hand", PATH, backend="numpy")
    assert np.allclose(answer.manipulability, moves.measure)
    assert np.allclose(answer.condition_number, moves.condition)
    for kind in ("force", "acceleration"):
        vertices = getattr(found, kind).vertices()
        expected = vertices[np.isfinite(vertices).all(axis=2)]
        assert list(getattr(answer, f"{kind}_counts")) == np.isfinite(vertices[..., 0]).sum(axis=1).tolist()
        assert np.allclose([(v.x, v.y, v.z) for v in getattr(answer, f"{kind}_vertices")], expected)


def test_the_measured_state_of_a_five_bar():
    limited = {"effort_limits": "list", "effort_limits_list": [20.0] * 4, "joint_state_timeout": 30.0}
    served = Served(FIVE_BAR, settings(backend="numpy", **limited))
    served.now = monotonic_ns()
    served.receive(ALL, closed(Q), [0.0] * 4)
    answer = call(served, link="right_lower")
    robot = served.core.model
    q = np.zeros(robot.nq)
    q[[robot.q_names.index(name) for name in ALL]] = closed(Q)
    limits = {name: {"max_effort": 20.0} for name in robot.v_names}
    found = dn.capability(robot, "right_lower", q, limits=limits, backend="numpy")
    assert answer.success and np.allclose(
        table(answer.force)[0], found.force.along(DIRECTIONS), equal_nan=True
    )
    assert np.allclose(table(answer.acceleration)[0], found.acceleration.along(DIRECTIONS), equal_nan=True)
    assert not answer.force_counts and not answer.force_vertices
    answer = call(served, link="right_lower", vertices=True)
    assert not answer.success and "unbounded" in answer.message


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({}, "needs the field link"),
        ({"link": "nose"}, "nose"),
        ({"link": "panda_hand", "reference": "sideways"}, "reference"),
        ({"link": "panda_hand", "directions": np.zeros((1, 3))}, "direction"),
        ({"link": "panda_hand", "directions": np.ones((101, 3))}, "101 directions"),
        ({"link": "panda_hand", "limited_joints": ["knee"], "max_effort": [1.0]}, "knee"),
        ({"link": "panda_hand", "limited_joints": ["panda_joint1"], "max_effort": [1.0, 2.0]}, "max_effort"),
    ],
)
def test_wrong_requests(fields, match):
    served = serve("panda7")
    answer = call(served, served.core.model.v_names, PATH[0], **fields)
    assert not answer.success and match in answer.message


def test_the_number_of_states_is_bounded(monkeypatch):
    monkeypatch.setattr(capability_service, "MOST_STATES", 1)
    served = serve("panda7")
    message = trajectory(served.core.model.v_names, [0.0, 1.0], PATH)
    answer = call(served, served.core.model.v_names, PATH[0], points=message, link="panda_hand")
    assert not answer.success and "2 states" in answer.message
