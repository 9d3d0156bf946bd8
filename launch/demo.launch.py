"""A demo: a robot moves, dynamics_node computes its torques, and a monitor checks them and ends the launch.

ros2 launch dynamics_node demo.launch.py seconds:=12
ros2 launch dynamics_node demo.launch.py robot:=five_bar
ros2 launch dynamics_node demo.launch.py robot:=humanoid
"""

import atexit
import sys
import tempfile
from pathlib import Path

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from dynamics_demo import legged_robots, pushed_arm, tracked_arm
from dynamics_node.node.launching import reject_unknown
from launch import LaunchDescription

PARAMETERS = {  # of the node
    "tracking": tracked_arm.PARAMETERS,
    "five_bar": {},
    "touched": pushed_arm.PARAMETERS,
    **dict.fromkeys(legged_robots.ROBOTS, legged_robots.PARAMETERS),
}
ARGUMENTS = {
    "robot": {"default_value": "tracking", "choices": list(PARAMETERS), "description": "robot of the demo"},
    "seconds": {"default_value": "12", "description": "duration of the motion, s"},
    "plot": {"default_value": "demo.png", "description": "file of the plot"},
}


def make_node(context):
    reject_unknown(__file__, sys.argv, list(ARGUMENTS))
    robot = LaunchConfiguration("robot").perform(context)
    chosen = dict(PARAMETERS[robot])
    if (legged := legged_robots.ROBOTS.get(robot)) is not None:
        folder = tempfile.TemporaryDirectory()
        atexit.register(folder.cleanup)
        file = Path(folder.name, "contacts.yaml")
        file.write_text(legged.contacts_file())
        chosen["contacts_file"] = str(file)
    return [Node(package="dynamics_node", executable="dynamics_node", parameters=[chosen] if chosen else [])]


def generate_launch_description():
    robot = ["--robot", LaunchConfiguration("robot"), "--seconds", LaunchConfiguration("seconds")]
    monitor = Node(
        package="dynamics_node",
        executable="demo_monitor",
        arguments=[*robot, "--plot", LaunchConfiguration("plot")],
        output="screen",
        on_exit=Shutdown(reason="the demo is over"),
    )
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, **options) for name, options in ARGUMENTS.items()),
            OpaqueFunction(function=make_node),
            Node(package="dynamics_node", executable="demo_motion", arguments=robot, output="screen"),
            monitor,
        ]
    )
