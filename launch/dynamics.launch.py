"""dynamics_node beside a robot.

ros2 launch dynamics_node dynamics.launch.py                    takes robot_description from the topic
ros2 launch dynamics_node dynamics.launch.py urdf:=robot.urdf   or robot.urdf.xacro, with its arguments:
    xacro_args:="name:=ur ur_type:=ur5e"
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

CONFIG = str(Path(get_package_share_directory("dynamics_node")) / "config" / "dynamics.yaml")
SOURCES = {
    "urdf": ("", "URDF or xacro file; empty: the topic robot_description"),
    "xacro_args": ("", "arguments of a xacro file: name:=value other:=value"),
    "params_file": (CONFIG, "parameters of the node; the default documents them all"),
    "namespace": ("", "namespace of the node and its topics"),
}
PARAMETERS = {  # name: (type, what it is); empty: as the parameter file says
    "use_sim_time": (bool, "time of the topic /clock: for simulators and bags"),
    "floating_base": (bool, "the root link moves freely; its state comes from odom"),
    "joints": (list[str], "joints that move, a,b,c; the others are held"),
    "command_joints": (list[str], "joints of ~/effort_commands in its order, a,b,c"),
    "rate": (float, "output rate, Hz; 0: at every joint state"),
    "solver": (str, "factor_graph, cluster or best"),
    "ordering": (str, "elimination order of solver factor_graph"),
    "backend": (str, "c, numpy, gtsam or auto"),
    "problem": (str, "inverse, forward or hybrid"),
}


def parameter(name, text):
    """A launch argument in the type of its parameter."""
    kind, _ = PARAMETERS[name]
    written = TextSubstitution(text=list_text(text) if kind == list[str] else text)
    return ParameterValue(written, value_type=kind)


def make_node(context):
    def argument(name):
        return LaunchConfiguration(name).perform(context)

    refuse_unknown(__file__, sys.argv, [*SOURCES, *PARAMETERS])
    described = description_parameters(argument("urdf"), argument("xacro_args"))
    chosen = {name: ParameterValue(value, value_type=str) for name, value in described.items()}
    chosen |= {name: parameter(name, argument(name)) for name in PARAMETERS if argument(name)}
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
        for name, (default, text) in SOURCES.items()
    ]
    declared += [
        DeclareLaunchArgument(name, default_value="", description=f"{text} (empty: as params_file says)")
        for name, (_, text) in PARAMETERS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=make_node)])
