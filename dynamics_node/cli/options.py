"""What commands share: options of the robot, the problem and recordings, and the bar of progress."""

import argparse
import contextlib
import sys
from typing import get_args

from dynamics_node.algorithms import load_robot
from dynamics_node.io import (
    CUTOFF,
    USUAL_CUTOFF,
    Table,
    TableError,
    Velocities,
    open_table,
    position_ranges,
)
from dynamics_node.robot import KINDS, ModelError, inverse_dynamics, named
from dynamics_node.text import listed

STILL = 1e-3  # rad or m: a joint whose positions differ by less stands still


def robot_command(commands, name, run, text):
    """A parser of a command on a robot description."""
    parser = commands.add_parser(name, help=text, description=text)
    robot_choices(parser)
    parser.add_argument("--strict", action="store_true", help="refuse implausible inertias")
    parser.set_defaults(run=run, read=read_robot)
    return parser


def robot_choices(parser):
    """Arguments that say which robot, of which much is left to move."""
    parser.add_argument("urdf", help="robot description: a URDF file")
    parser.add_argument(
        "--floating-base", action="store_true", help="the root link moves freely (default: it is fixed)"
    )
    parser.add_argument(
        "--joints",
        nargs="+",
        metavar="JOINT",
        help="these move, the others are held at zero, or move as a recording has them",
    )
    parser.add_argument("--loops", metavar="FILE", help="YAML file of loops beside the description")


def add_friction(parser, default):
    """--friction, --no-friction: one switch for what joints take by themselves."""
    parser.add_argument(
        "--friction",
        action=argparse.BooleanOptionalAction,
        default=default,
        help="damping, dry friction, springs and offsets of the joints act, of the description or of "
        f"--parameters ({'on' if default else 'off'})",
    )


def add_parameters(parser):
    """--parameters"""
    parser.add_argument(
        "--parameters",
        metavar="FILE",
        help="inertias and friction in place of the description's: of identify",
    )


def read_robot(options, **choices):
    """The Robot of the options of `robot_command`; choices: of
    `load_robot`, in place of --joints. Raises ModelError with the file's name."""
    try:
        return load_robot(
            options.urdf,
            loops_file=options.loops,
            parameters_file=getattr(options, "parameters", None),
            floating_base=options.floating_base,
            strict=options.strict,
            **({"joints": options.joints} | choices),
        )
    except ModelError as error:
        raise ModelError(f"{options.urdf}: {error}") from None


def add_problem(parser):
    """Options for one problem, with hybrid ones."""
    parser.add_argument(
        "--problem",
        choices=KINDS,
        default="forward",
        help="inverse: torques; forward: accelerations; hybrid: of each some (forward)",
    )
    parser.add_argument(
        "--forward-joints",
        nargs="+",
        default=[],
        metavar="JOINT",
        help="hybrid: joints whose torque is known and whose acceleration is asked",
    )


def read_problem(model, options):
    """The Problem of the options of `add_problem`."""
    if options.forward_joints and options.problem != "hybrid":
        raise ValueError("--forward-joints is for --problem hybrid")
    if options.problem == "hybrid" and not options.forward_joints:
        raise ValueError("--problem hybrid needs --forward-joints: those whose acceleration is asked")
    return named(options.problem, model, options.forward_joints)


def add_recording(parser):
    """--topic and --joints-map."""
    parser.add_argument("--topic", help="of the recording, if it has several with JointStates")
    parser.add_argument(
        "--joints-map", nargs="+", default=[], metavar="THEIRS=OURS",
        help="joints that the recording calls otherwise than the description: shoulder=joint1, or, with a "
        "star for what stays, 'fer_*=panda_*'",
    )  # fmt: skip


def joints_map(options):
    """{their name: our name}"""
    pairs = [entry.partition("=") for entry in options.joints_map]
    for theirs, sign, _ in pairs:
        if not sign:
            raise TableError(f"--joints-map takes THEIRS=OURS, not {theirs!r}")
    if len({theirs for theirs, _, _ in pairs}) != len(pairs):
        raise TableError("--joints-map names a joint of the recording twice")
    return {theirs: ours for theirs, _, ours in pairs}


def add_derivatives(parser):
    """--cutoff and --velocities, of commands that always differentiate what is not recorded."""
    parser.add_argument(
        "--cutoff", type=float, metavar="HZ",
        help="velocities and accelerations that are not recorded are derivatives below this "
        f"({CUTOFF:g}, or a quarter of the states a second)",
    )  # fmt: skip
    parser.add_argument(
        "--velocities", choices=get_args(Velocities), default="better",
        help="recorded ones, derivatives of positions, or what has less noise (better)",
    )  # fmt: skip


def cutoff(options):
    """As `open_table` takes it."""
    return USUAL_CUTOFF if options.cutoff is None else options.cutoff


def as_recorded(robot, options, paths):
    """The robot in which joints that --joints leaves out are where recordings have them: those that move are
    joints of it, the others are held at their recorded position, or at zero where none is recorded. robot:
    that of the options, which is returned where recordings make no difference. Raises TableError naming
    joints that move where this is impossible."""
    if options.joints is None:
        return robot
    others = _left_out(robot, options)
    ranges = [position_ranges(path, others, options.topic, joints_map=joints_map(options)) for path in paths]
    every = {name: [own[name] for own in ranges if name in own] for name in others}
    low = {name: min(least for least, _ in own) for name, own in every.items() if own}
    high = {name: max(most for _, most in own) for name, own in every.items() if own}
    moving = [name for name in low if high[name] - low[name] > STILL]
    held = {name: 0.5 * (low[name] + high[name]) for name in low if name not in moving}
    held = {name: position for name, position in held.items() if abs(position) > STILL}
    if not moving and not held:
        return robot
    for path, own in zip(paths, ranges, strict=True):
        if missing := [name for name in moving if name not in own]:
            raise TableError(
                f"{path} has no positions of {listed(missing)}, which move in other recordings and are not "
                "among --joints"
            )
    if moving and robot.constrained:
        raise TableError(
            f"{listed(moving)} move in the recording, but --joints leaves them out: name all joints that move"
        )
    if moving:
        of = listed(options.joints)
        print(f"dynamics: {listed(moving)} move as recorded; torques are those of {of}", file=sys.stderr)
    if held:
        told = listed([f"{name} at {position:.4g}" for name, position in held.items()])
        print(f"dynamics: held where the recordings have it: {told}", file=sys.stderr)
    return read_robot(options, joints=[*options.joints, *moving], positions=held)


def _left_out(robot, options):
    """Names of joints with one coordinate that --joints leaves out."""
    own = {joint.name for joint in robot.tree.independent_joints}
    every = read_robot(options, joints=None).tree
    return [
        joint.name for joint in every.independent_joints if joint.type.is_scalar and joint.name not in own
    ]


def open_recordings(robot, options, *groups):
    """For commands with `add_derivatives`: the robot `as_recorded`; the tables of each group of recordings,
    whose notes are printed; and `measured` of what computes with them, None for all coordinates."""
    moved = as_recorded(robot, options, [path for group in groups for path in group])
    measured = torques_of(robot, moved)
    problem = inverse_dynamics(moved)
    tables: list[list[Table]] = [[] for _ in groups]
    for own, path in ((own, path) for own, group in zip(tables, groups, strict=True) for path in group):
        table = open_table(
            path, moved, problem, topic=options.topic, joints_map=joints_map(options), measured=measured,
            cutoff=cutoff(options), velocities=options.velocities,
        )  # fmt: skip
        for note in table.notes:
            print(f"dynamics: {path}: {note}", file=sys.stderr)
        own.append(table)
    return moved, tables, None if measured is True else measured


def total_rows(tables):
    """Of all tables; None where reading alone tells."""
    counts = [table.rows for table in tables]
    return None if None in counts else sum(counts)


def torques_of(robot, moved):
    """`measured` of `open_table`, of the robot that `as_recorded` returns for another one."""
    return True if moved is robot else tuple(robot.v_names)


try:
    from rich.progress import Progress
except ImportError:  # an extra: without it there is no bar
    Progress = None  # type: ignore[assignment,misc]


@contextlib.contextmanager
def progress(what, total):
    """advance(count of what is done more). total: None if only the end tells."""
    if Progress is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
