"""dynamics convert and compare: other files of the same robot."""

from pathlib import Path

from dynamics_node.cli.options import UsageError, errors_of_description, pairs_of, xacro_arguments
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import file_to_write, names
from dynamics_node.errors import InputError, ModelError
from dynamics_node.identification.comparison import compare
from dynamics_node.identification.comparison_page import write_comparison
from dynamics_node.output_files import write_text
from dynamics_node.robot.joint_names import all_renamed
from dynamics_node.robot.loading import load_robot, named_error, read_file, robot_from_description
from dynamics_node.robot.urdf_writer import left_out, urdf_text

DIFFERENT = 1  # exit code


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
        description = read_file(options.urdf, xacro_arguments(options, options.urdf), options.trusted_folder)
        robot_from_description(description)
        return description


def convert(description, options, printer):
    """Write the file, and print what a URDF cannot hold."""
    path = options.output or Path(Path(options.urdf).name.split(".")[0] + ".urdf")
    write_text(path, urdf_text(description))
    for what in left_out(description):
        printer.note(f"a URDF cannot hold {what}")
    printer.written(path)


# --- compare ------------------------------------------------------------------------------------------------


def add_compare(commands):
    parser = add_command(
        commands, "compare", show_comparison, compare,
        "robot.urdf robot.xml", "before.urdf after.urdf -o page.html --names 'left_*=l_*'",
        "robot.urdf robot.urdf --parameters out/parameters.yaml", parameters=True,
    )  # fmt: skip
    parser.add_argument("input", type=Path, metavar="OTHER", help="the second one, in the same formats")
    text = "joints and links of the second robot, and what the first one calls them"
    parser.add_list("--names", text, "THEIRS=OURS,...", names)
    parser.add_documented(compare, "tolerance")
    to_write = file_to_write(".html", ".htm")
    parser.add_value("-o --output", "the comparison as a page", "FILE.html", type=to_write)


def show_comparison(robot, options, printer):
    """Print the comparison, and write its page. Exit code 1 if torques differ."""
    try:
        other = load_robot(
            options.input,
            xacro_arguments=xacro_arguments(options, options.input),
            trusted_folder=options.trusted_folder,
            floating_base=options.floating_base,
            joints=options.joints,
        )
    except ModelError as error:
        raise named_error(error, options.input) from None
    try:
        comparison = compare(robot, other, names=_names(options, other), tolerance=options.tolerance)
    except InputError as error:
        raise UsageError(f"--{error}") from None
    for line in comparison.lines():
        printer.line(line)
    printer.data(
        is_same=comparison.is_same,
        only_first=comparison.only_first,
        only_second=comparison.only_second,
        kinds=comparison.kinds,
        placements=[one._asdict() for one in comparison.placements],
        frames=comparison.frames,
        numbers=[one._asdict() for one in comparison.numbers],
        base_parameters=[one._asdict() for one in comparison.base_parameters],
        torques=comparison.torques,
        sizes=comparison.sizes,
        worst=None if comparison.worst is None else comparison.worst._asdict(),
    )
    if options.output:
        titles = Path(options.urdf).name, options.input.name
        printer.written(write_comparison(comparison, titles, options.output))
    return None if comparison.is_same else DIFFERENT


def _names(options, other):
    """{name in the other robot: ours} of --names, in which a star stands for the part that stays."""
    pairs = pairs_of("--names", options.names)
    theirs = [*other.frames, *(body.joint.name for body in other.bodies)]
    ours = dict(zip(theirs, all_renamed(theirs, pairs), strict=True))
    return {their: our for their, our in pairs if "*" not in their} | {
        their: our for their, our in ours.items() if their != our
    }
