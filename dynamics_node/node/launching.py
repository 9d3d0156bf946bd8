"""Arguments of the launch files. Importing this module does not need the package launch."""

import shlex
import sys
from pathlib import Path

from dynamics_node.errors import InputError

SOURCES = {  # arguments of both nodes: (default, description)
    "urdf": ("", "URDF or xacro file; empty: the topic robot_description"),
    "xacro_args": ("", "arguments of a xacro file: name:=value other:=value"),
    "params_file": ("", "parameter file of the node; the default documents all parameters"),
    "namespace": ("", "namespace of the node and its topics"),
}


def launch_description_of(file, executable, config, parameters):
    """The LaunchDescription of one of the nodes.

    file: the launch file; config: the default parameter file in config/; parameters: {name: (type,
    description)} of the arguments in addition to SOURCES. An empty argument leaves the value of the parameter
    file.
    """
    from ament_index_python.packages import get_package_share_directory
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    from launch.launch_description import LaunchDescription
    from launch.substitutions import LaunchConfiguration, TextSubstitution
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    def typed(name, text):
        kind, _ = parameters[name]
        written = TextSubstitution(text=list_text(text) if kind == list[str] else text)
        return ParameterValue(written, value_type=kind)

    def make_node(context):
        reject_unknown(file, sys.argv, [*SOURCES, *parameters])
        given = {name: LaunchConfiguration(name).perform(context) for name in (*SOURCES, *parameters)}
        described = description_parameters(given["urdf"], given["xacro_args"])
        chosen = {name: ParameterValue(text, value_type=str) for name, text in described.items()}
        chosen |= {name: typed(name, given[name]) for name in parameters if given[name]}
        return [
            Node(
                package="dynamics_node",
                executable=executable,
                namespace=given["namespace"],
                parameters=[given["params_file"], *([chosen] if chosen else [])],
                output="screen",
            )
        ]

    file_of_all = str(Path(get_package_share_directory("dynamics_node")) / "config" / config)
    declared = SOURCES | {"params_file": (file_of_all, SOURCES["params_file"][1])}
    declared |= {
        name: ("", f"{text} (empty: value of params_file)") for name, (_, text) in parameters.items()
    }
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in declared.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=make_node)])


def reject_unknown(file, command_line, known):
    """Raise ValueError for an argument `name:=value` that the launch file does not declare.

    The package launch ignores undeclared arguments. A launch file that another one includes is not checked,
    because the command line may hold arguments of the other.
    """
    names = [Path(word).name for word in command_line]
    if Path(file).name not in names:
        return
    words = command_line[names.index(Path(file).name) + 1 :]
    given = [word.partition(":=")[0] for word in words if ":=" in word]
    if unknown := [name for name in given if name not in known]:
        plural = "s" if len(unknown) > 1 else ""
        raise InputError(
            f"{Path(file).name} has no argument{plural} {', '.join(unknown)}; known: {', '.join(known)}"
        )


def list_text(text):
    """`[a, b]` of `a, b` or `[a, b]`."""
    return text if text.strip().startswith("[") else f"[{text}]"


def xacro_mappings(text):
    """{name: value} of `name:=value other:="two words"`, the syntax of xacro's command line.

    Raises ValueError for a word without `:=`.
    """
    mappings = {}
    for word in shlex.split(text):
        name, assigned, value = word.partition(":=")
        if not (name and assigned):
            raise InputError(f"xacro_args: {word!r} is not name:=value")
        mappings[name] = value
    return mappings


def description_parameters(path, xacro_args):
    """{parameter: value} for a robot description file; {} without one."""
    if not path:
        return {}
    if Path(path).suffix != ".xacro":
        return {"robot_description_file": path}
    import xacro  # only for xacro files: sudo apt install ros-$ROS_DISTRO-xacro

    return {"robot_description": xacro.process_file(path, mappings=xacro_mappings(xacro_args)).toxml()}
