"""A demo: a robot moves, dynamics_node computes its torques, and a monitor checks them and ends the launch.

ros2 launch dynamics_node demo.launch.py seconds:=12
ros2 launch dynamics_node demo.launch.py robot:=five_bar
"""

import sys

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from dynamics_demo import pushed_arm, tracked_arm
from dynamics_node.node.launching import reject_unknown
from launch import LaunchDescription

PARAMETERS = {  # of the node
    "tracking": tracked_arm.PARAMETERS,
    "five_bar": {},
    "touched": pushed_arm.PARAMETERS,
}
ARGUMENTS = {
    "robot": {"default_value": "tracking", "choices": list(PARAMETERS), "description": "robot of the demo"},
    "seconds": {"default_value": "12", "description": "duration of the motion, s; tracking: 6 or more"},
    "plot": {"default_value": "demo.png", "description": "file of the plot"},
}


def make_node(context):
    reject_unknown(__file__, sys.argv, list(ARGUMENTS))
    chosen = PARAMETERS[LaunchConfiguration("robot").perform(context)]
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
