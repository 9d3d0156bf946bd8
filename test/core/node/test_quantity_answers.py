"""Replies of get_quantity without a node: axes and sizes of results. For their values, see
test/ros/test_quantities_on_topics and test/core/test_evaluate."""

import re
from pathlib import Path

import numpy as np
import pytest
from plain import Served, serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from tolerances import EXACT, error
from trajectory_msgs.msg import JointTrajectoryPoint

import dynamics_node as dn
from dynamics_demo.robots import differential
from dynamics_node.algorithms import QUANTITIES
from dynamics_node.node.errors import LEAVE_OUT
from dynamics_node.node.services import quantity_service
from dynamics_node.node.services.services import Services


def call(served, quantity, names=(), q=(), **fields):
    kind = interfaces.GetQuantity
    request = kind.Request(quantity=quantity, **fields)
    request.state.joints.name, request.state.joints.position = list(names), [float(x) for x in q]
    request.state.has_base = True
    return Services(lambda: served.core).callback(kind)(request, kind.Response())


def test_a_request_has_all_options():
    fields = set(quantity_service.OPTIONS) | {
        "xyz",
        "rpy",
        "redundant",
        "forward_joints",
    }  # the last four are for Python
    assert all(set(row.options) <= fields for row in QUANTITIES.values())


def test_options_match_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "reference" / "quantities.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)`(?: \(([^)]*)\))? \|", text, re.MULTILINE))
    assert {name: tuple(filter(None, names.split(", "))) for name, names in rows.items()} == {
        name: row.options for name, row in QUANTITIES.items()
    }


def test_the_size_of_a_reply_is_bounded(panda, monkeypatch):
    """The check precedes the computation."""
    served = serve("panda7")
    monkeypatch.setattr(quantity_service, "MOST_NUMBERS", 342)
    monkeypatch.setattr(quantity_service, "evaluate", None)
    answer = call(served, "inverse_dynamics_second_derivatives", panda.names, panda.q)
    assert not answer.success
    assert (
        answer.message
        == "inverse_dynamics_second_derivatives of this robot has 343 numbers; the limit is 342"
    )


def test_regressors_of_all_bodies_and_of_one_link(panda):
    served = serve("panda7")
    given = ("joint_torque_regressor", panda.names, panda.q)
    every, own = call(served, *given), call(served, *given, link="panda_link7")
    assert every.success and own.success, own.message
    assert list(own.values[0].col_names) == list(every.values[0].col_names[-10:])
    matrices = [np.array(a.values[0].data).reshape(7, -1) for a in (every, own)]
    assert error(matrices[1], matrices[0][:, -10:], tail=2) <= EXACT
    assert call(served, *given, link="nowhere").message.startswith("unknown link 'nowhere'")


def test_poses_of_all_or_some_links(panda):
    served = serve("panda7")
    every = call(served, "frame_poses", panda.names, panda.q)
    assert every.success, every.message
    assert list(every.values[1].row_names) == list(panda.model.frames)
    some = call(served, "frame_poses", panda.names, panda.q, links=["panda_hand", "panda_link3"])
    for own, result in zip(
        some.values, dn.evaluate(panda.model, "frame_poses", panda.q, backend="numpy"), strict=True
    ):
        rows = [list(panda.model.frames).index(link) for link in ("panda_hand", "panda_link3")]
        assert error(np.array(own.data), result[rows].ravel()) <= EXACT


def test_a_floating_robot_with_loops_is_linear_first():
    """Rows and columns are linear first; passive joints follow."""
    served = Served(differential(), settings(backend="numpy", floating_base=True))
    mechanism, names = served.core.model, served.core.model.joint_names
    q = np.random.default_rng(0).uniform(-0.1, 0.1, len(names))
    answer = call(served, "spatial_momentum_matrix", names, q)
    assert answer.success, answer.message
    full = mechanism.neutral()
    full[[joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]] = q
    full = dn.close_loops(mechanism, full)
    right = dn.build(mechanism, "spatial_momentum_matrix", backend="numpy")(full)
    rows = [3, 4, 5, 0, 1, 2]
    matrix = np.array(answer.values[0].data).reshape(6, -1)
    assert error(matrix, right[np.ix_(rows, [*rows, *range(6, mechanism.nv)])], tail=2) <= EXACT
    assert list(answer.values[0].col_names[:2]) == ["floating_base.linear.x", "floating_base.linear.y"]
    assert call(served, "reaction_wrenches", names, q).values[0].cols == 6


def test_a_reply_without_a_state_has_the_remedy(panda):
    served = serve("panda7")
    served.receive(panda.names[1:], panda.q[1:], panda.qd[1:])
    reply = call(served, "mass_matrix")
    assert (reply.success, reply.message) == (False, f"never seen: panda_joint1; {LEAVE_OUT}")


def test_a_reply_without_one_position_has_the_remedy(panda):
    served = serve("panda7")
    served.receive(panda.names[1:], panda.q[1:], panda.qd[1:])
    kind = interfaces.InverseDynamics
    request = kind.Request()
    request.points.joint_names = panda.names[1:]
    request.points.points = [JointTrajectoryPoint(positions=list(panda.q[1:]))]
    reply = Services(lambda: served.core).callback(kind)(request, kind.Response())
    assert not reply.success and f"panda_joint1 (never seen: panda_joint1; {LEAVE_OUT})" in reply.message
