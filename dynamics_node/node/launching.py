"""What the launch files make of their arguments; no launch is needed to import it."""

import shlex
import sys
from pathlib import Path

SOURCES = {  # arguments of both nodes: (default, what it is)
    "urdf": ("", "URDF or xacro file; empty: the topic robot_description"),
    "xacro_args": ("", "arguments of a xacro file: name:=value other:=value"),
    "params_file": ("", "parameters of the node; the default documents them all"),
    "namespace": ("", "namespace of the node and its topics"),
}


def beside_a_robot(file, executable, config, parameters):
    """The LaunchDescription of a node beside a robot.

    file: the launch file; config: the file in config/ that documents the node's parameters; parameters:
    {name: (type, what it is)} of those that are arguments, besides SOURCES; an empty one is as the parameter
    file says.
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
        refuse_unknown(file, sys.argv, [*SOURCES, *parameters])
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
    declared |= {name: ("", f"{text} (empty: as params_file says)") for name, (_, text) in parameters.items()}
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in declared.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=make_node)])


def refuse_unknown(file, command_line, known):
    """Raise ValueError for an argument `name:=value` that the launch file does not have.

    launch itself says nothing about one that nobody reads. Only where `file` is the one on the command
    line: included by another, its arguments may be the other's.
    """
    names = [Path(word).name for word in command_line]
    if Path(file).name not in names:
        return
    words = command_line[names.index(Path(file).name) + 1 :]
    given = [word.partition(":=")[0] for word in words if ":=" in word]
    if unknown := [name for name in given if name not in known]:
        plural = "s" if len(unknown) > 1 else ""
        raise ValueError(
            f"{Path(file).name} has no argument{plural} {', '.join(unknown)}; it has {', '.join(known)}"
        )


def list_text(text):
    """`a, b` or `[a, b]` as the latter."""
    return text if text.strip().startswith("[") else f"[{text}]"


def xacro_mappings(text):
    """{name: value} of `name:=value other:="two words"`, as xacro itself takes them on its command line.

    Raises ValueError for what is no such word.
    """
    mappings = {}
    for word in shlex.split(text):
        name, assigned, value = word.partition(":=")
        if not (name and assigned):
            raise ValueError(f"xacro_args: {word!r} is not name:=value")
        mappings[name] = value
    return mappings


def description_parameters(path, xacro_args):
    """{parameter: value} that carries a robot description file; {} without one."""
    if not path:
        return {}
    if Path(path).suffix != ".xacro":
        return {"robot_description_file": path}
    import xacro  # only for those who need it: sudo apt install ros-$ROS_DISTRO-xacro

    return {"robot_description": xacro.process_file(path, mappings=xacro_mappings(xacro_args)).toxml()}
