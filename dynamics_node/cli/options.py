"""What commands share: options of the robot, the problem, recordings and trajectories, and the bar of
progress.
"""

import contextlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from dynamics_node.algorithms import first_closed, load_robot
from dynamics_node.io import (
    CUTOFF,
    USUAL_CUTOFF,
    TableError,
    Velocities,
    check_plot,
    plot_curves,
    position_ranges,
    table_writer,
)
from dynamics_node.robot import KINDS, ModelError, named
from dynamics_node.text import listed
from dynamics_node.trajectory import TrajectoryError, robot_drawing, write_animation

STILL = 1e-3  # rad or m: a joint whose positions differ by less stands still
BACKENDS = ("auto", "c", "numpy")
PAGES = (".html", ".htm")


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


def add_problem(parser, default="forward"):
    """Options for one problem, with hybrid ones."""
    parser.add_argument(
        "--problem",
        choices=KINDS,
        default=default,
        help=f"inverse: torques; forward: accelerations; hybrid: of each some ({default})",
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


def torques_of(robot, moved):
    """`measured` of `open_table`, of the robot that `as_recorded` returns for another one."""
    return True if moved is robot else tuple(robot.v_names)


def motion_command(commands, name, run, text):
    """A parser of a command that makes a motion."""
    parser = robot_command(commands, name, run, text)
    parser.add_argument("--output", type=Path, metavar="FILE", help="the motion: .npz, .csv or .parquet")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="its curves: .png, .svg or .pdf")
    parser.add_argument("--animate", type=Path, metavar="FILE", help="a page that plays it: .html")
    parser.add_argument("--show", nargs="+", metavar="JOINT", help="coordinates in the plot (all)")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto",
        help="what solves: compiled code (c), numpy; auto: c where it works (auto)",
    )  # fmt: skip
    return parser


def start_of(robot, given):
    """A closed position (nq,) with the joints where they are `given`: all, the independent ones, or None for
    zero."""
    q = robot.neutral() if given is None else np.array(given, dtype=float)
    if len(q) not in (robot.nq, robot.nv):
        raise TableError(
            f"--start needs {robot.nq} numbers, {', '.join(robot.q_names)}, or the {robot.nv} of the "
            f"independent joints, not {len(q)}"
        )
    if len(q) == robot.nv < robot.nq:
        q, own = robot.neutral(), q
        for name, value in zip(robot.v_names, own, strict=True):
            if name not in robot.q_names:
                raise TableError(f"--start needs {robot.nq} numbers: {', '.join(robot.q_names)}")
            q[robot.q_names.index(name)] = value
    return first_closed(robot, q)


# --- what becomes of it -------------------------------------------------------------------------------------


def check_outputs(robot, options):
    """Raise TableError, before anything is computed, for what cannot be written."""
    known = (*robot.q_names, *robot.v_names)
    for name in options.show or ():
        if name not in known:
            raise TableError(f"--show: there is no {name!r}; there are {', '.join(dict.fromkeys(known))}")
    if options.plot is not None:
        check_plot(options.plot)
    if options.animate is not None and options.animate.suffix not in PAGES:
        raise TableError(f"{options.animate}: a page is written to {' or '.join(PAGES)}")


def finish(robot, options, compute):
    """Write the Trajectory of compute(), or, where that fails, what there was before, and raise."""
    started = time.perf_counter()
    try:
        motion = compute()
    except TrajectoryError as error:
        if error.solution is not None and len(error.solution):
            print(f"dynamics: {len(error.solution)} states before the error are kept", file=sys.stderr)
            _write(robot, options, error.solution)
        raise
    except ImportError as error:  # of an optional solver: what to install
        raise TableError(str(error)) from None
    _tell(motion, time.perf_counter() - started)
    _write(robot, options, motion)


def _tell(motion, elapsed):
    span = motion.time[-1] - motion.time[0]
    print(f"{motion.name}: {len(motion)} states of {span:g} s in {elapsed:.2f} s")
    width = max(len(name) for name in motion.residuals)
    for name, errors in motion.residuals.items():
        print(f"  {name:{width}} {errors.max():9.2e}")


def _write(robot, options, motion):
    if options.output is not None:
        arrays = motion.arrays
        with table_writer(options.output, motion, tuple(arrays), True) as write:
            write(arrays, motion.time)
        print(f"written: {options.output}")
    if options.plot is not None:
        curves = [c for c in motion.curves() if options.show is None or c.name in options.show]
        plot_curves(options.plot, motion.time - motion.time[0], curves, motion.name)
        print(f"written: {options.plot}")
    if options.animate is not None:
        print(f"written: {write_animation(options.animate, motion, partial(robot_drawing, robot))}")


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
