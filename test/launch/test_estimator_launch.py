"""estimator.launch.py with the package launch: the node estimates a robot from a file, and ends cleanly."""

import tempfile
import time
import unittest
from pathlib import Path

import pytest

REASON = "launch_testing comes with a ROS 2 installation only: source one"
launch_testing = pytest.importorskip("launch_testing", reason=REASON)

import launch_testing.actions
import launch_testing.asserts
import rclpy
from ament_index_python.packages import get_package_share_directory
from dynamics_interfaces.msg import JointStateEstimate
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from sensor_msgs.msg import JointState
from two_links import ARM, NAMES, Swing

from launch import LaunchDescription

RATE = 100.0  # Hz


@pytest.mark.launch_test
def generate_test_description():
    with tempfile.NamedTemporaryFile("w", suffix=".urdf", delete=False) as file:
        file.write(ARM)
    source = f"{get_package_share_directory('dynamics_node')}/launch/estimator.launch.py"
    arguments = {"urdf": file.name, "namespace": "left", "rate": str(RATE), "window": "0.1", "lag": "0.05"}
    node = IncludeLaunchDescription(PythonLaunchDescriptionSource(source), launch_arguments=arguments.items())
    description = LaunchDescription([node, launch_testing.actions.ReadyToTest()])
    return description, {"urdf": Path(file.name)}


class TestNode(unittest.TestCase):
    def setUp(self):
        rclpy.init()
        self.node = rclpy.create_node("launch_test")

    def tearDown(self):
        self.node.destroy_node()
        rclpy.shutdown()

    def test_estimates_follow_the_motion(self, urdf):
        """The estimate of a sine motion follows it with the lag."""
        swing, estimates = Swing(), []
        states = self.node.create_publisher(JointState, "/left/joint_states", 10)
        topic = "/left/dynamics_estimator/joint_state_estimate"
        self.node.create_subscription(JointStateEstimate, topic, estimates.append, 10)
        begin, deadline = self.node.get_clock().now(), time.monotonic() + 60
        while len(estimates) < 20:
            assert time.monotonic() < deadline, f"{len(estimates)} estimates"
            now = self.node.get_clock().now()
            t = (now - begin).nanoseconds * 1e-9
            message = JointState(
                name=NAMES, position=swing.state(t)[0].tolist(), effort=swing.torque(t).tolist()
            )
            message.header.stamp = now.to_msg()
            states.publish(message)
            rclpy.spin_once(self.node, timeout_sec=1 / RATE)
        stamp = rclpy.time.Time.from_msg(estimates[-1].header.stamp)
        q = swing.state((stamp - begin).nanoseconds * 1e-9)[0]
        assert tuple(estimates[-1].name) == NAMES
        self.assertLess(max(abs(a - b) for a, b in zip(estimates[-1].position, q, strict=True)), 0.02)
        urdf.unlink()


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)
