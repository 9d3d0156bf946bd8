"""dynamics_estimator beside a robot.

ros2 launch dynamics_node estimator.launch.py                    takes robot_description from the topic
ros2 launch dynamics_node estimator.launch.py urdf:=robot.urdf sensors_file:=imus.yaml
    or robot.urdf.xacro, with its arguments: xacro_args:="name:=ur ur_type:=ur5e"
"""

import sys
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, TextSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from dynamics_node.node.launching import description_parameters, list_text, refuse_unknown
from launch import LaunchDescription

CONFIG = str(Path(get_package_share_directory("dynamics_node")) / "config" / "estimator.yaml")
SOURCES = {
    "urdf": ("", "URDF or xacro file; empty: the topic robot_description"),
    "xacro_args": ("", "arguments of a xacro file: name:=value other:=value"),
    "params_file": (CONFIG, "parameters of the node; the default documents them all"),
    "namespace": ("", "namespace of the node and its topics"),
}
PARAMETERS = {  # name: (type, what it is); empty: as the parameter file says
    "use_sim_time": (bool, "time of the topic /clock: for simulators and bags"),
    "joints": (list[str], "joints that move, a,b,c; the others are held"),
    "sensors_file": (str, "YAML file of IMUs, gyros and accelerometers"),
    "torque_source": (str, "measured, commanded or none"),
    "rate": (float, "steps a second, Hz"),
    "window": (float, "how far back steps stay open, s"),
    "lag": (float, "how much older than the newest step what is published is, s"),
}


def make_node(context):
    def argument(name):
        return LaunchConfiguration(name).perform(context)

    refuse_unknown(__file__, sys.argv, [*SOURCES, *PARAMETERS])
    chosen = {
        name: ParameterValue(value, value_type=str)
        for name, value in description_parameters(argument("urdf"), argument("xacro_args")).items()
    }
    for name, (kind, _) in PARAMETERS.items():
        if text := argument(name):
            written = TextSubstitution(text=list_text(text) if kind == list[str] else text)
            chosen[name] = ParameterValue(written, value_type=kind)
    return [
        Node(
            package="dynamics_node",
            executable="dynamics_estimator",
            namespace=argument("namespace"),
            parameters=[argument("params_file"), *([chosen] if chosen else [])],
            output="screen",
        )
    ]


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in SOURCES.items()
    ]
    declared += [
        DeclareLaunchArgument(name, default_value="", description=f"{text} (empty: as params_file says)")
        for name, (_, text) in PARAMETERS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=make_node)])
