"""demo.launch.py with the package launch: the monitor passes, and all processes end cleanly."""

import unittest
from importlib.util import find_spec

import pytest

REASON = "launch_testing comes with a ROS 2 installation only: source one"
launch_testing = pytest.importorskip("launch_testing", reason=REASON)

import launch_testing.actions
import launch_testing.asserts
from ament_index_python.packages import get_package_share_directory
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from launch import LaunchDescription


@pytest.mark.launch_test
def generate_test_description():
    source = f"{get_package_share_directory('dynamics_node')}/launch/demo.launch.py"
    robot = "tracking" if find_spec("mujoco") else "five_bar"  # rosdep has no MuJoCo
    arguments = {"robot": robot, "seconds": "6", "plot": ""}
    demo = IncludeLaunchDescription(PythonLaunchDescriptionSource(source), launch_arguments=arguments.items())
    return LaunchDescription([demo, launch_testing.actions.ReadyToTest()])


class TestDemo(unittest.TestCase):
    def test_the_monitor_ends_by_itself(self, proc_info):
        proc_info.assertWaitForShutdown(process="demo_monitor", timeout=200)


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_exit_codes(self, proc_info):
        """The exit code of the monitor includes its verdict on the torques."""
        launch_testing.asserts.assertExitCodes(proc_info)
