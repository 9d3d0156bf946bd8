"""The rows of outputs.py and replies of services, without a node: names, order, frames."""

from types import SimpleNamespace

import numpy as np
import pytest
from plain import Served, serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from builtin_interfaces.msg import Time
from tolerances import error
from trajectory_msgs.msg import JointTrajectoryPoint

import dynamics_node as dn
from dynamics_demo.robots import five_bar, quadruped
from dynamics_node.node.ros.outputs import ESTIMATED_CONTACTS, EXTERNAL_TORQUES, OUTPUTS, READINGS, Outputs
from dynamics_node.node.services.services import Services

STAMP = Time(sec=3, nanosec=4)


class FakePublisher:
    """A publisher with a number of subscriptions."""

    def __init__(self, listeners):
        self.listeners, self.sent = listeners, []
        self.publish = self.sent.append

    def get_subscription_count(self):
        return self.listeners


@pytest.fixture
def outputs():
    """outputs(listeners): Outputs with fake publishers, and these by topic."""

    def make(listeners=1):
        publishers = {}

        def create_publisher(kind, topic, qos, **_):
            return publishers.setdefault(topic, FakePublisher(listeners))

        return Outputs(SimpleNamespace(create_publisher=create_publisher), OUTPUTS), publishers

    return make


def publish(made, served):
    made.publish(served.core, served.solve(), STAMP)


def test_every_row_has_a_unique_topic():
    rows = (*OUTPUTS, *ESTIMATED_CONTACTS, *EXTERNAL_TORQUES, *READINGS)
    assert len({row.topic for row in rows}) == len(rows)


def test_messages_have_names_and_the_stamp_of_the_input(panda, outputs):
    (made, topics), served = outputs(), serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    publish(made, served)
    (torques,), (solution,) = topics["~/joint_torques"].sent, topics["~/solution"].sent
    assert tuple(torques.name) == tuple(solution.joint_names) == panda.names
    assert np.array_equal(torques.effort, served.tau()) and not torques.position
    assert torques.header.stamp == solution.header.stamp == STAMP
    assert torques.header.frame_id == solution.header.frame_id == "panda_link0"
    (point,) = solution.points
    assert np.array_equal(point.positions, panda.q) and np.array_equal(point.velocities, panda.qd)
    assert np.array_equal(point.effort, torques.effort) and not np.any(point.accelerations)
    assert not topics["~/effort_commands"].sent


def test_a_solution_needs_a_subscription(panda, outputs):
    (made, topics), served = outputs(listeners=0), serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    publish(made, served)
    assert not topics["~/solution"].sent and len(topics["~/joint_torques"].sent) == 1


def test_gravity_torques_are_those_at_rest(panda, outputs):
    (made, topics), served = outputs(), serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    publish(made, served)
    (weights,) = topics["~/gravity_torques"].sent
    model = served.core.model
    assert tuple(weights.name) == panda.names and weights.header.stamp == STAMP
    assert (
        error(weights.effort, dn.evaluate(model, "nonlinear_effects", panda.q, 0 * panda.q, backend="numpy"))
        <= 1e-10
    )
    bars = Served(five_bar(), settings(backend="numpy"))
    q = dn.close_loops(bars.core.model, np.full(4, 0.1))
    bars.receive(bars.core.model.q_names, q, 0 * q)
    publish(made, bars)
    own = dn.build(bars.core.model, "gravity_torque", backend="numpy")(q)
    assert error(topics["~/gravity_torques"].sent[-1].effort, own) <= 1e-9


def test_commands_have_the_order_of_command_joints(panda, outputs):
    """Also after a change of the parameter."""
    chosen = ["panda_joint6", "panda_joint1", "panda_joint4"]
    (made, topics), served = outputs(), serve("panda7", command_joints=chosen)
    served.receive(panda.names, panda.q, panda.qd)
    publish(made, served)
    served.use(command_joints=chosen[:2])
    publish(made, served)
    served.use(command_joints=[])
    publish(made, served)
    first, second = (list(message.data) for message in topics["~/effort_commands"].sent)
    assert first == list(served.tau(chosen)) and second == first[:2]


def test_forward_dynamics_publishes_no_commands(panda, outputs):
    (made, topics), served = outputs(), serve("panda7", problem="forward", command_joints=panda.names)
    served.receive(panda.names, panda.q, panda.qd, np.ones(7))
    publish(made, served)
    assert not topics["~/effort_commands"].sent and len(topics["~/solution"].sent) == 1


# --- services -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place, field",
    [
        *(("point", field) for field in ("positions", "velocities", "accelerations", "effort")),
        *(("state", field) for field in ("positions", "velocities", "effort")),
    ],
)
def test_impossible_numbers_of_requests_are_rejected(panda, place, field):
    served, numbers = serve("panda7"), {"positions": list(panda.q), field: [0.0] * 6 + [1e150]}
    request = interfaces.ForwardDynamics.Request()
    if place == "point":
        request.points.joint_names = list(panda.names)
        request.points.points = [JointTrajectoryPoint(**numbers)]
    else:
        joints = request.state.joints
        joints.name, joints.position = list(panda.names), numbers["positions"]
        joints.velocity, joints.effort = numbers.get("velocities", []), numbers.get("effort", [0.0] * 7)
    answer = Services(lambda: served.core).callback(interfaces.ForwardDynamics)(
        request, interfaces.ForwardDynamics.Response()
    )
    assert not answer.success and "'panda_joint7' is 1e+150, above 1e+08" in answer.message


def test_operational_space_inertia_of_a_floating_robot_is_linear_first():
    """Columns and rows are linear first; the base comes from odom."""
    served = Served(quadruped(), settings(backend="numpy", floating_base=True))
    mechanism, names = served.core.model, served.core.model.joint_names
    q = np.random.default_rng(0).uniform(-0.5, 0.5, len(names))
    pose = [0.1, 0.2, 0.3, 0, 0, 0, 1]
    kind = interfaces.GetOperationalSpaceInertia
    request = kind.Request(links=["fl_shank", "hr_shank"])
    request.state.joints.name, request.state.joints.position = list(names), list(q)
    request.state.has_base = True
    request.state.base_pose.position.x, request.state.base_pose.position.y = pose[:2]
    request.state.base_pose.position.z = pose[2]
    answer = Services(lambda: served.core).callback(kind)(request, kind.Response())
    assert answer.success, answer.message
    full = mechanism.neutral()
    full[:7] = pose
    full[[joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]] = q
    full = dn.close_loops(mechanism, full)
    quantity = dn.build(mechanism, "operational_space_inertia_inverse", links=request.links, backend="numpy")
    right, order = quantity(full)[0], [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    inertia_inverse = np.array(answer.inertia_inverse.data).reshape(12, 12)
    assert error(inertia_inverse, right[np.ix_(order, order)], tail=2) <= 1e-9
