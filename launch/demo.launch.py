"""A Panda moves, dynamics_node computes its torques, a monitor checks them and ends the launch.

ros2 launch dynamics_node demo.launch.py seconds:=10
"""

from launch.actions import DeclareLaunchArgument, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchDescription

JOINTS = [f"panda_joint{i}" for i in range(1, 8)]


def generate_launch_description():
    monitor = Node(
        package="dynamics_node",
        executable="demo_monitor",
        arguments=["--seconds", LaunchConfiguration("seconds"), "--plot", LaunchConfiguration("plot")],
        output="screen",
        on_exit=Shutdown(reason="the demo is over"),
    )
    return LaunchDescription(
        [
            DeclareLaunchArgument("seconds", default_value="10", description="how long to watch"),
            DeclareLaunchArgument(
                "plot", default_value="demo_torques.png", description="where to save the plot"
            ),
            DeclareLaunchArgument("rate", default_value="500", description="joint states per second"),
            Node(package="dynamics_node", executable="dynamics_node", parameters=[{"joints": JOINTS}]),
            Node(
                package="dynamics_node",
                executable="demo_motion",
                arguments=["--rate", LaunchConfiguration("rate")],
            ),
            monitor,
        ]
    )
