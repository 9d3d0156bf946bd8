"""Shared options of commands, and the robots and recordings that they name."""

import argparse
import contextlib
import math
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from dynamics_node.algorithms import load_robot
from dynamics_node.errors import InputError, ModelError, TableError, UnknownNameError
from dynamics_node.io import (
    CUTOFF,
    USUAL_CUTOFF,
    Table,
    Velocities,
    check_plot,
    check_table,
    open_table,
    position_ranges,
)
from dynamics_node.output_files import is_protected
from dynamics_node.robot import KINDS, inverse_dynamics, named
from dynamics_node.text import listed
from dynamics_node.trajectory.animation import MISSING

STATIONARY = 1e-3  # rad or m: joints with a smaller range do not move
TABLES = (".npz", ".csv", ".parquet")
RECORDING = "a table (.npz, .csv, .parquet) or a recording (a rosbag2 folder, .db3, .mcap, a ROS 1 .bag)"


class UsageError(InputError):
    """Options that do not go together, or a value that an option does not take."""


# --- values -------------------------------------------------------------------------------------------------


def names(text):
    """Names separated by commas."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name between its commas")
    return words


def numbers(text):
    """Numbers separated by commas."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0,-0.5,1e-3") from None


def one_of(*choices):
    """Names separated by commas, of some that exist."""

    def chosen(text):
        for name in names(text):
            if name not in choices:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(choices)}")
        return names(text)

    return chosen


def positive(text):
    """A finite number above zero, whose square is one, too."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    if not 1e-100 < value < 1e100:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1e-100 and 1e100")
    return value


def file_to_write(*suffixes):
    """The path of a file with one of the suffixes, in a folder that exists."""

    def path_of(text):
        path = Path(text)
        if suffixes and path.suffix not in suffixes:
            raise argparse.ArgumentTypeError(f"{text!r} ends in none of {', '.join(suffixes)}")
        if not path.absolute().parent.is_dir():
            raise argparse.ArgumentTypeError(f"folder {str(path.parent)!r} does not exist")
        return path

    return path_of


def table_to_write(text):
    """The path of a table, whose writer is installed."""
    path = file_to_write(*TABLES)(text)
    try:
        check_table(path)
    except TableError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def folder_to_write(text):
    """The path of a folder, which may not exist yet."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a file, not a folder")
    return path


def plot_to_write(text):
    """The path of a plot."""
    try:
        check_plot(text)
    except TableError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def page_to_write(text):
    """The path of a page that plays a motion."""
    if find_spec("viser") is None:
        raise argparse.ArgumentTypeError(MISSING)
    return file_to_write(".html", ".htm")(text)


# --- options ------------------------------------------------------------------------------------------------


def add_command(commands, name, run, text, examples, read=None):
    """A parser of a command on a robot. text: one sentence; examples: lines of the epilog; read: what
    run(read(options), options, printer) gets, the Robot unless given."""
    parser = commands.add_parser(
        name,
        description=text,
        epilog="examples:\n" + "\n".join(f"  dynamics {name} {line}" for line in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("urdf", help="robot description: a URDF file")
    parser.set_defaults(run=run, read=read or read_robot, usage_error=parser.error)
    robot = parser.add_argument_group("robot")
    robot.add_argument(
        "--floating-base", action="store_true", help="let the root link move freely (default: it is fixed)"
    )
    robot.add_argument(
        "--joints",
        action="extend",
        type=names,
        metavar="JOINT,...",
        help="joints that move; the others are fixed at zero, or move as a recording has them (default: all)",
    )
    robot.add_argument("--loops", metavar="FILE", help="YAML file with the loops of the robot")
    printed = parser.add_argument_group("printing")
    printed.add_argument("--json", action="store_true", help="print one JSON object in place of text")
    printed.add_argument(
        "-q", "--quiet", action="store_true", help="print results and errors alone, no notes or progress"
    )
    printed.add_argument(
        "-v", "--verbose", action="store_true", help="print times of stages, and tracebacks of errors"
    )
    return parser


def add_strict(parser):
    """--strict"""
    parser.add_argument("--strict", action="store_true", help="reject implausible inertias")


def add_output(parser, kind, text, **more):
    """-o, --output: where a command writes."""
    parser.add_argument("-o", "--output", type=kind, help=text, **more)


def add_friction(parser, default):
    """--friction, --no-friction: one switch for the losses of joints."""
    parser.add_argument(
        "--friction",
        action=argparse.BooleanOptionalAction,
        default=default,
        help="damping, dry friction, springs and offsets of the joints, of the description or of "
        f"--parameters (default: {'on' if default else 'off'})",
    )


def add_parameters(parser):
    """--parameters"""
    parser.add_argument(
        "--parameters",
        metavar="FILE",
        help="inertias and friction in place of the description's, as `dynamics identify` writes them",
    )


def add_problem(parser):
    """--problem and --forward-joints."""
    parser.add_argument(
        "--problem",
        choices=KINDS,
        default="forward",
        help="inverse: torques; forward: accelerations; hybrid: some of each (default: forward)",
    )
    parser.add_argument(
        "--forward-joints",
        action="extend",
        type=names,
        metavar="JOINT,...",
        help="joints of a hybrid problem whose torque is known and whose acceleration is computed",
    )


def add_recording(parser):
    """--topic and --joints-map."""
    parser.add_argument("--topic", help="topic of a recording that has several with JointStates")
    parser.add_argument(
        "--joints-map",
        action="extend",
        type=names,
        default=None,
        metavar="THEIRS=OURS,...",
        help="joints that the recording names differently: shoulder=joint1, or with a star for the part "
        "that stays, 'fer_*=panda_*'",
    )


def add_derivatives(parser):
    """--cutoff and --velocities, of commands that always differentiate what is not recorded."""
    parser.add_argument(
        "--cutoff",
        type=positive,
        metavar="HZ",
        help="cut-off of the low-pass for derivatives of positions and velocities "
        f"(default: {CUTOFF:g} Hz, or a quarter of the sampling rate if that is lower)",
    )
    parser.add_argument(
        "--velocities",
        choices=get_args(Velocities),
        default="better",
        help="velocities: as recorded, derivatives of positions, or those with less noise (default: better)",
    )


# --- files of options ---------------------------------------------------------------------------------------


INPUTS = ("urdf", "input", "recordings", "tare", "sensors", "loops", "parameters", "limits", "torques")
OUTPUTS = ("output", "plot", "animate", "page", "repair")


def input_paths(options):
    """Paths that the options name as inputs."""
    values = [getattr(options, name, None) for name in INPUTS]
    return [Path(path) for own in values if own for path in (own if isinstance(own, list) else [own])]


def reject_overwritten_inputs(options):
    """Raise UsageError for an output that is a file of `protecting`; `options.writes`: files of a folder."""
    for name in OUTPUTS:
        path = getattr(options, name, None)
        for own in () if path is None else [path, *(path / file for file in getattr(options, "writes", ()))]:
            if is_protected(own):
                raise UsageError(f"--{name} {own} is an input: name another file")


# --- objects of options -------------------------------------------------------------------------------------


def read_robot(options, **choices):
    """The Robot of the options of `add_command`; choices: of `load_robot`, in place of --joints. Raises
    as `errors_of_description`."""
    with errors_of_description(options):
        return load_robot(
            options.urdf,
            loops_file=options.loops,
            parameters_file=getattr(options, "parameters", None),
            floating_base=options.floating_base,
            strict=getattr(options, "strict", False),
            **({"joints": options.joints} | choices),
        )


@contextlib.contextmanager
def errors_of_description(options):
    """Raise UsageError for an unknown name in --joints, and other ModelErrors with the file's name."""
    try:
        yield
    except UnknownNameError as error:
        raise UsageError(f"--joints: {error}") from None
    except ModelError as error:
        raise ModelError(f"{options.urdf}: {error}") from None


def read_problem(robot, options):
    """The Problem of the options of `add_problem`."""
    if options.forward_joints and options.problem != "hybrid":
        raise UsageError("--forward-joints requires --problem hybrid")
    if options.problem == "hybrid" and not options.forward_joints:
        raise UsageError("--problem hybrid needs --forward-joints: the joints with unknown acceleration")
    try:
        return named(options.problem, robot, options.forward_joints or [])
    except ValueError as error:
        raise UsageError(f"--forward-joints: {error}") from None


def joints_map(options):
    """{recorded name: our name}"""
    pairs = [entry.partition("=") for entry in options.joints_map or ()]
    for theirs, sign, _ in pairs:
        if not sign:
            raise UsageError(f"--joints-map takes THEIRS=OURS, not {theirs!r}")
    if len({theirs for theirs, _, _ in pairs}) != len(pairs):
        raise UsageError("--joints-map lists a joint of the recording twice")
    return {theirs: ours for theirs, _, ours in pairs}


def cutoff(options):
    """The argument of `open_table`."""
    return USUAL_CUTOFF if options.cutoff is None else options.cutoff


def as_recorded(robot, options, paths, printer):
    """The robot in which joints that --joints leaves out are where recordings have them.

    Joints that move are joints of it; others are fixed at their recorded position, or at zero if none is
    recorded. robot: that of the options, returned if recordings make no difference. Raises TableError naming
    joints that move, where this is impossible.
    """
    if options.joints is None:
        return robot
    others = _omitted(robot, options)
    ranges = [position_ranges(path, others, options.topic, joints_map=joints_map(options)) for path in paths]
    every = {name: [own[name] for own in ranges if name in own] for name in others}
    low = {name: min(least for least, _ in own) for name, own in every.items() if own}
    high = {name: max(most for _, most in own) for name, own in every.items() if own}
    moving = [name for name in low if high[name] - low[name] > STATIONARY]
    fixed = {name: 0.5 * (low[name] + high[name]) for name in low if name not in moving}
    fixed = {name: position for name, position in fixed.items() if abs(position) > STATIONARY}
    if not moving and not fixed:
        return robot
    for path, own in zip(paths, ranges, strict=True):
        if missing := [name for name in moving if name not in own]:
            raise TableError(
                f"{path} has no positions of {listed(missing)}, which move in other recordings and are not "
                "among --joints"
            )
    if moving and robot.constrained:
        raise TableError(
            f"{listed(moving)} move in the recording, but are not among --joints: list all moving joints"
        )
    if moving:
        printer.note(f"{listed(moving)} move as recorded; torques are those of {listed(options.joints)}")
    if fixed:
        positions = listed([f"{name} at {position:.4g}" for name, position in fixed.items()])
        printer.note(f"fixed at their recorded position: {positions}")
    return read_robot(options, joints=[*options.joints, *moving], positions=fixed)


def _omitted(robot, options):
    """Names of joints with one coordinate that --joints leaves out."""
    own = {joint.name for joint in robot.tree.independent_joints}
    every = read_robot(options, joints=None).tree
    return [
        joint.name for joint in every.independent_joints if joint.type.is_scalar and joint.name not in own
    ]


def open_recordings(robot, options, printer, *groups):
    """For commands with `add_derivatives`: the robot `as_recorded`; the tables of each group of recordings,
    whose notes are printed; and `measured` for computations with them, None for all coordinates."""
    moved = as_recorded(robot, options, [path for group in groups for path in group], printer)
    measured = torques_of(robot, moved)
    problem = inverse_dynamics(moved)
    tables: list[list[Table]] = [[] for _ in groups]
    for own, path in ((own, path) for own, group in zip(tables, groups, strict=True) for path in group):
        table = open_table(
            path, moved, problem, topic=options.topic, joints_map=joints_map(options), measured=measured,
            cutoff=cutoff(options), velocities=options.velocities,
        )  # fmt: skip
        for note in table.notes:
            printer.note(f"{path}: {note}")
        own.append(table)
    return moved, tables, None if measured is True else measured


def total_rows(tables):
    """Rows of all tables; None if unknown before reading."""
    counts = [table.rows for table in tables]
    return None if None in counts else sum(counts)


def torques_of(robot, moved):
    """`measured` of `open_table`, for the robot that `as_recorded` returns in place of another one."""
    return True if moved is robot else tuple(robot.v_names)
