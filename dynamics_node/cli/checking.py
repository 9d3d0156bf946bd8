"""dynamics check: whether a robot can execute a trajectory."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.options import (
    TABLES,
    UsageError,
    add_command,
    add_friction,
    add_output,
    add_parameters,
    add_strict,
    file_to_write,
    names,
    numbers,
    plot_to_write,
    positive,
)
from dynamics_node.errors import InputError, TableError
from dynamics_node.identification.excitation import message_text, read_limits
from dynamics_node.io import plot_curves, read_table
from dynamics_node.output_files import write_text
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.text import listed
from dynamics_node.trajectory import (
    JointTrajectory,
    check_trajectory,
    read_joint_trajectory,
    scale_trajectory,
    verdict,
    write_check,
)
from dynamics_node.trajectory.trajectory_check import RATE, WINDOW

INFEASIBLE = 1  # exit code
USED = ("position", "velocity", "acceleration", "jerk", "effort", "effort_rate")


def add_check(commands):
    parser = add_command(
        commands, "check", check_robot, "Check whether a robot can execute a trajectory.",
        [
            "robot.urdf trajectory.yaml",
            "robot.urdf trajectory.yaml --payload tool0,3 --slow-down -o slower.yaml --page check.html",
        ],
    )  # fmt: skip
    add_strict(parser)
    parser.add_argument(
        "input", type=Path, metavar="TRAJECTORY",
        help="a trajectory_msgs/JointTrajectory in YAML or JSON, or a message that contains one; or a table "
        f"with time, q and optionally qd, qdd: {', '.join(TABLES)}",
    )  # fmt: skip
    add_parameters(parser)
    add_output(parser, file_to_write(".yaml", ".yml"), "the trajectory with its efforts", metavar="FILE.yaml")
    parser.add_argument("--page", type=file_to_write(".html", ".htm"), metavar="FILE.html", help="a report")
    parser.add_argument("--plot", type=plot_to_write, metavar="FILE", help="curves: .png, .svg, .pdf")
    add_friction(parser, default=True)
    parser.add_argument(
        "--at", action="extend", type=numbers, metavar="Q,...",
        help="positions of all joints, for those that the trajectory omits (default: those of its "
        "trajectory_start, or zero)",
    )  # fmt: skip
    parser.add_argument(
        "--limits", metavar="FILE", help="YAML with joint_limits as for MoveIt; the tightest limit counts"
    )
    parser.add_argument(
        "--max-effort-rate", type=positive, metavar="RATE",
        help="limit of the derivative of the efforts of all joints by time, N m/s or N/s",
    )  # fmt: skip
    parser.add_argument(
        "--payload", type=names, action="append", default=[], metavar="LINK,KG[,X,Y,Z]",
        help="a point mass on a link, at a point in its axes, m (default: its origin); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--largest-payload", type=names, action="append", default=[], metavar="LINK[,X,Y,Z]",
        help="compute the largest mass there with which the trajectory stays feasible; may be repeated",
    )  # fmt: skip
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--slow-down", action="store_true", help="slow an infeasible trajectory down until it is feasible"
    )
    times.add_argument(
        "--time-optimal", action="store_true",
        help="replace the times by the fastest feasible ones, from rest to rest (needs toppra)",
    )  # fmt: skip
    parser.add_argument(
        "--window", type=positive, default=WINDOW, metavar="S",
        help=f"window of the thermal RMS, s (default: {WINDOW:g})",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=positive, default=RATE, metavar="HZ",
        help=f"samples a second between points (default: {RATE:g})",
    )  # fmt: skip


def check_robot(robot, options, printer):
    """Check, print and write. Exit code 1 for an infeasible trajectory."""
    if options.at is not None and len(options.at) != robot.nq:
        raise UsageError(f"--at needs {robot.nq} numbers, {', '.join(robot.q_names)}, not {len(options.at)}")
    for words in options.payload:
        robot = _loaded(robot, words)
    places = [(words[0], _point("--largest-payload", robot, words, 1)) for words in options.largest_payload]
    limits = _limits(robot, options)
    points, at = _points(robot, options)
    with printer.progress("checking"):
        check = check_trajectory(
            robot, points, at=at, limits=limits, friction=options.friction, window=options.window,
            rate=options.rate,
        )  # fmt: skip
    if options.slow_down and check.slowdown.limit is not None and check.slowdown.possible:
        limit, end = check.slowdown.limit, check.time[-1]
        check = check.slowed()
        printer.data(slowed=check.time[-1] / end)
        printer.line(f"slowed down by {check.time[-1] / end:.4g}: {limit.quantity} of {limit.joint}")
    if options.time_optimal:
        before = check.time[-1] - check.time[0]
        with printer.progress("scaling"):
            check = _time_optimal(robot, points, at, options, limits)
        scaled = float((check.time[-1] - check.time[0]) / before) if before > 0 else 1.0
        printer.data(slowed=scaled)
        printer.line(f"time-optimal: {scaled:.4g} times the duration")
    payloads = [(link, check.largest_payload(link, com)) for link, com in places]
    _show(check, payloads, printer)
    _write(check, payloads, options, printer)
    return 0 if check.feasible else INFEASIBLE


def _limits(robot, options):
    """Limits of --limits and --max-effort-rate."""
    limits = {} if options.limits is None else read_limits(options.limits)
    if (most := options.max_effort_rate) is not None:
        for name in (name for name in robot.v_names if name in robot.q_names):
            own = limits.setdefault(name, {})
            own["max_effort_rate"] = min(most, own.get("max_effort_rate", most))
    return limits


def _time_optimal(robot, points, at, options, limits):
    try:
        return scale_trajectory(
            robot, points, at=at, limits=limits, friction=options.friction, rate=options.rate
        )
    except ImportError as error:  # the message names what to install
        raise TableError(str(error)) from None


def _points(robot, options):
    """The trajectory, and the positions of all joints at its start."""
    path, at = options.input, options.at
    if path.suffix not in TABLES:
        points, start = read_joint_trajectory(path)
        if at is None and start:
            at = np.array(
                [start.get(name, own) for name, own in zip(robot.q_names, robot.neutral(), strict=True)]
            )
        return points, at
    rows = read_table(path, robot, ("q", "qd", "qdd"), ("time", "q"))
    own = list(range(robot.nv))
    if rows["q"].shape[1] == robot.nq:
        if missing := [name for name in robot.v_names if name not in robot.q_names]:
            raise InputError(f"{path}: a trajectory has no positions of {listed(missing)}")
        own = [robot.q_names.index(name) for name in robot.v_names]
    nothing = np.full((len(rows["time"]), robot.nv), np.nan)
    rates = (rows.get(kind, nothing) for kind in ("qd", "qdd"))
    points = JointTrajectory(robot.v_names, rows["time"] - rows["time"][0], rows["q"][:, own], *rates)
    return points, at


def _loaded(robot, words):
    """The robot with a payload of --payload."""
    if len(words) < 2:
        raise UsageError("--payload needs a link and its mass in kg: LINK,KG or LINK,KG,X,Y,Z")
    com = _point("--payload", robot, words, 2)
    try:
        return with_payload(robot, words[0], float(words[1]), com)
    except ValueError as error:
        raise UsageError(f"--payload {words[0]}: {error}") from None


def _point(option, robot, words, first):
    """The point (3,) in the words of an option, from `first` on; the origin without any."""
    if words[0] not in robot.frames:
        raise UsageError(f"{option}: unknown link {words[0]!r}; the robot has: {listed(robot.frames)}")
    if len(words) not in (first, first + 3):
        raise UsageError(f"{option} {words[0]}: a point has 3 numbers, not {len(words) - first}")
    try:
        return [float(word) for word in words[first:]] or [0.0, 0.0, 0.0]
    except ValueError:
        raise UsageError(f"{option} {words[0]}: {', '.join(words[first:])} are not numbers") from None


# --- printing -----------------------------------------------------------------------------------------------


def _show(check, payloads, printer):
    printer.data(
        feasible=check.feasible,
        samples=len(check.time),
        duration=float(check.time[-1] - check.time[0]),
        worst=None if check.worst is None else _entries(check.worst),
        margins=[_entries(own) for own in check.margins],
        slowdown=check.slowdown.factor,
        at_rest=check.slowdown.at_rest,
        joints=_loads(check),
        peak_total_power=check.peak_total_power,
        energy=float(check.energy.sum()),
        largest_payload=dict(payloads),
        notes=check.notes,
    )
    for note in check.notes:
        printer.note(note)
    for line in verdict(check, payloads):
        printer.line(line)
    _show_limits(check, printer)


def _show_limits(check, printer):
    loads = {own["name"]: own for own in _loads(check)}
    used = {(own.joint, own.quantity): f"{100 * own.used:.1f} %" for own in check.margins}
    kinds = [kind for kind in USED if any(kind == own.quantity for own in check.margins)]
    joints = list(dict.fromkeys([*loads, *(own.joint for own in check.margins)]))
    width = max(5, *(len(name) for name in joints))
    head = [*(f"{kind:>12}" for kind in kinds), *(f"{kind:>9}" for kind in HEAD)]
    printer.line(f"{'joint':{width}} {' '.join(head)}")
    for name in joints:
        cells = [f"{used.get((name, kind), '-'):>12}" for kind in kinds]
        cells += [f"{loads[name][kind]:9.4g}" for kind in LOADS if name in loads]
        printer.line(f"{name:{width}} {' '.join(cells)}")
    printer.line(
        f"limits used; efforts N m or N, thermal: RMS over {check.window:g} s; power W, of all joints "
        f"{check.peak_total_power:.4g}; energy J, {check.energy.sum():.4g}"
    )


LOADS = ("peak_effort", "rms_effort", "thermal_effort", "peak_power", "energy")
HEAD = ("peak", "RMS", "thermal", "power", "energy")


def _loads(check):
    columns = [getattr(check, kind).tolist() for kind in LOADS]
    rows = zip(check.robot.v_names, *columns, strict=True)
    return [dict(zip(("name", *LOADS), row, strict=True)) for row in rows]


def _entries(margin):
    return margin._asdict() | {"margin": margin.margin}


def _write(check, payloads, options, printer):
    if options.output is not None:
        write_text(options.output, message_text(check.message()))
        printer.written(options.output)
    if options.plot is not None:
        plot_curves(options.plot, check.time, check.curves(), check.robot.name)
        printer.written(options.plot)
    if options.page is not None:
        printer.written(write_check(check, options.page, payloads))
