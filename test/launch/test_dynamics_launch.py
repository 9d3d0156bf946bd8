"""dynamics.launch.py with the package launch: the node serves a robot from a file and ends cleanly."""

import time
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
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import parameter_value_to_python
from robots import PANDA, data_folder
from sensor_msgs.msg import JointState

JOINTS = [f"panda_joint{i}" for i in range(1, 8)] + ["panda_finger_joint1"]

from launch import LaunchDescription


@pytest.mark.launch_test
def generate_test_description():
    source = f"{get_package_share_directory('dynamics_node')}/launch/dynamics.launch.py"
    arguments = {
        "urdf": str(data_folder() / PANDA),
        "namespace": "left",
        "solver": "factor_graph",
        "ordering": "aba",
        "rate": "100",
        "use_sim_time": "true",
        "joints": ", ".join(JOINTS),
        "command_joints": JOINTS[0],
    }
    node = IncludeLaunchDescription(PythonLaunchDescriptionSource(source), launch_arguments=arguments.items())
    return LaunchDescription([node, launch_testing.actions.ReadyToTest()])


class TestNode(unittest.TestCase):
    def setUp(self):
        rclpy.init()
        self.node = rclpy.create_node("launch_test")

    def tearDown(self):
        self.node.destroy_node()
        rclpy.shutdown()

    def call(self, kind, name, request):
        client = self.node.create_client(kind, f"/left/dynamics_node/{name}")
        assert client.wait_for_service(timeout_sec=100), name
        future = client.call_async(request)
        rclpy.spin_until_future_complete(self.node, future, timeout_sec=100)
        return future.result()

    def test_the_node_serves_in_its_namespace(self):
        request = GetMassMatrix.Request()
        request.state.joints = JointState(name=JOINTS, position=[0.0] * 8)
        deadline = time.monotonic() + 100
        while not (answer := self.call(GetMassMatrix, "get_mass_matrix", request)).success:
            assert time.monotonic() < deadline, answer.message
            time.sleep(0.2)  # "no robot yet"
        assert answer.mass_matrix.rows == 8

    def test_arguments_reach_the_parameters(self):
        expected = {
            "solver": "factor_graph",
            "ordering": "aba",
            "problem": "inverse",
            "rate": 100.0,
            "use_sim_time": True,
            "floating_base": False,
            "joints": JOINTS,
            "command_joints": JOINTS[:1],
        }
        values = self.call(
            GetParameters, "get_parameters", GetParameters.Request(names=list(expected))
        ).values
        assert [parameter_value_to_python(value) for value in values] == list(expected.values())


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)
