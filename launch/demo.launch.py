"""A robot moves, dynamics_node computes its torques, a monitor checks them and ends the launch.

ros2 launch dynamics_node demo.launch.py seconds:=10
ros2 launch dynamics_node demo.launch.py robot:=five_bar
"""

import sys

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from dynamics_node.node.launching import refuse_unknown
from launch import LaunchDescription

PARAMETERS = {  # of the node
    "panda": {"joints": [f"panda_joint{i}" for i in range(1, 8)]},
    "five_bar": {},
}
ARGUMENTS = {
    "robot": {"default_value": "panda", "choices": list(PARAMETERS), "description": "which"},
    "seconds": {"default_value": "10", "description": "how long to watch"},
    "plot": {"default_value": "demo_torques.png", "description": "where to save the plot"},
    "rate": {"default_value": "500", "description": "joint states per second"},
}


def make_node(context):
    refuse_unknown(__file__, sys.argv, list(ARGUMENTS))
    chosen = PARAMETERS[LaunchConfiguration("robot").perform(context)]
    return [Node(package="dynamics_node", executable="dynamics_node", parameters=[chosen] if chosen else [])]


def generate_launch_description():
    robot = ["--robot", LaunchConfiguration("robot")]
    watch = ["--seconds", LaunchConfiguration("seconds"), "--plot", LaunchConfiguration("plot")]
    monitor = Node(
        package="dynamics_node",
        executable="demo_monitor",
        arguments=[*robot, *watch],
        output="screen",
        on_exit=Shutdown(reason="the demo is over"),
    )
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, **options) for name, options in ARGUMENTS.items()),
            OpaqueFunction(function=make_node),
            Node(
                package="dynamics_node",
                executable="demo_motion",
                arguments=[*robot, "--rate", LaunchConfiguration("rate")],
            ),
            monitor,
        ]
    )
