"""dynamics convert: the URDF of a robot described by MJCF or xacro, for the node and other programs."""

from pathlib import Path

from dynamics_node.algorithms.loading import robot_from_description
from dynamics_node.cli.options import errors_of_description, xacro_arguments
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import file_to_write
from dynamics_node.output_files import replacing
from dynamics_node.robot.reading import read_file
from dynamics_node.robot.urdf_writer import left_out, urdf_text


def add_convert(commands):
    parser = add_command(
        commands, "convert", convert, "Write the URDF of a robot that is described by MJCF or xacro.",
        "robot.xml -o robot.urdf", "robot.urdf.xacro --xacro prefix:=left_ -o left.urdf", read=read,
    )  # fmt: skip
    text = "the URDF (default: the input's name with the suffix .urdf, in this folder)"
    parser.add_value("-o --output", text, "FILE.urdf", type=file_to_write(".urdf"))


def read(options):
    """The Description, of a valid robot. Raises as `errors_of_description`."""
    with errors_of_description(options):
        description = read_file(options.urdf, xacro_arguments(options))
        robot_from_description(description)
        return description


def convert(description, options, printer):
    """Write the file, and say what a URDF cannot hold."""
    path = options.output or Path(Path(options.urdf).name.split(".")[0] + ".urdf")
    with replacing(path) as unfinished:
        unfinished.write_text(urdf_text(description), encoding="utf-8")
    for what in left_out(description):
        printer.note(f"a URDF cannot hold {what}")
    printer.written(path)
