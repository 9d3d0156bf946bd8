"""dynamics.launch.py with the real launch: the node serves a robot given as a file and ends cleanly."""

import unittest

import pytest

REASON = "launch_testing comes with a ROS 2 installation only: source one"
launch_testing = pytest.importorskip("launch_testing", reason=REASON)

import launch_testing.actions
import launch_testing.asserts
import rclpy
from ament_index_python.packages import get_package_share_directory
from dynamics_interfaces.srv import GetMassMatrix
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from robots import PANDA, data_folder
from sensor_msgs.msg import JointState

from launch import LaunchDescription


@pytest.mark.launch_test
def generate_test_description():
    source = f"{get_package_share_directory('dynamics_node')}/launch/dynamics.launch.py"
    arguments = {
        "urdf": str(data_folder() / PANDA),
        "namespace": "left",
        "solver": "factor_graph",
        "ordering": "aba",
    }
    node = IncludeLaunchDescription(PythonLaunchDescriptionSource(source), launch_arguments=arguments.items())
    return LaunchDescription([node, launch_testing.actions.ReadyToTest()])


class TestNode(unittest.TestCase):
    def test_it_serves_in_its_namespace(self, proc_output):
        proc_output.assertWaitFor("8 joints, inverse dynamics by aba", process="dynamics_node", timeout=30)
        rclpy.init()
        node = rclpy.create_node("launch_test")
        try:
            client = node.create_client(GetMassMatrix, "/left/dynamics_node/get_mass_matrix")
            self.assertTrue(client.wait_for_service(timeout_sec=20))
            request = GetMassMatrix.Request()
            request.state.joints = JointState(
                name=[f"panda_joint{i}" for i in range(1, 8)] + ["panda_finger_joint1"], position=[0.0] * 8
            )
            future = client.call_async(request)
            rclpy.spin_until_future_complete(node, future, timeout_sec=20)
            self.assertTrue(future.result().success, future.result().message)
            self.assertEqual(future.result().mass_matrix.rows, 8)
        finally:
            node.destroy_node()
            rclpy.shutdown()


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)
