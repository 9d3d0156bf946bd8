"""dynamics_node beside a robot.

ros2 launch dynamics_node dynamics.launch.py                    takes robot_description from the topic
ros2 launch dynamics_node dynamics.launch.py urdf:=robot.urdf   or robot.urdf.xacro
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchDescription

CONFIG = str(Path(get_package_share_directory("dynamics_node")) / "config" / "dynamics.yaml")
OVERRIDES = ("solver", "ordering", "backend", "problem")  # empty: as the parameter file says
ARGUMENTS = {
    "urdf": ("", "URDF or xacro file; empty: the topic robot_description"),
    "params_file": (CONFIG, "parameters of the node; the default documents them all"),
    "namespace": ("", "namespace of the node and its topics"),
    "solver": ("", "factor_graph, cluster or best"),
    "ordering": ("", "elimination order of solver factor_graph"),
    "backend": ("", "c, numpy, gtsam or auto"),
    "problem": ("", "inverse, forward or hybrid"),
}


def description_parameters(path):
    """The parameter that carries a robot description file; {} without one."""
    if not path:
        return {}
    if Path(path).suffix != ".xacro":
        return {"robot_description_file": path}
    import xacro  # only for those who need it: sudo apt install ros-$ROS_DISTRO-xacro

    text = xacro.process_file(path).toxml()
    return {"robot_description": ParameterValue(text, value_type=str)}


def make_node(context):
    def argument(name):
        return LaunchConfiguration(name).perform(context)

    chosen = description_parameters(argument("urdf"))
    chosen |= {name: argument(name) for name in OVERRIDES if argument(name)}
    return [
        Node(
            package="dynamics_node",
            executable="dynamics_node",
            namespace=argument("namespace"),
            parameters=[argument("params_file"), *([chosen] if chosen else [])],
            output="screen",
        )
    ]


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=make_node)])
