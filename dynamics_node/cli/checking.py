"""dynamics check: whether a robot can execute a trajectory."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, require_links
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import TABLES, file_to_write, names, plot_to_write, positive
from dynamics_node.errors import InputError, TableError
from dynamics_node.io import plot_curves, read_table
from dynamics_node.io.motion_files import message_text, read_limits
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

INFEASIBLE = 1  # exit code
PAYLOAD = "a point mass on a link, at a point in its axes, m (default: its origin); may be repeated"
LIMITS = "YAML with joint_limits as for MoveIt; the tightest limit counts"
LINK_AND_MASS = "LINK,KG[,X,Y,Z]"
USED = ("position", "velocity", "acceleration", "jerk", "effort", "effort_rate", "continuous_effort")


def add_check(commands):
    parser = add_command(
        commands,
        "check",
        check_robot,
        check_trajectory,
        "robot.urdf trajectory.yaml",
        "robot.urdf trajectory.yaml --payload tool0,3 --slow-down -o slower.yaml --page check.html",
        parameters=True,
    )
    text = (
        "a trajectory_msgs/JointTrajectory in YAML or JSON, or a message that contains one; or a table with "
        f"time, q and optionally qd, qdd: {', '.join(TABLES)}"
    )
    parser.add_argument("input", type=Path, metavar="TRAJECTORY", help=text)
    to_write = file_to_write(".yaml", ".yml")
    parser.add_value("-o --output", "the trajectory with its efforts", "FILE.yaml", type=to_write)
    parser.add_value("--page", "a report", "FILE.html", type=file_to_write(".html", ".htm"))
    parser.add_value("--plot", "curves: .png, .svg, .pdf", "FILE", type=plot_to_write)
    parser.add_documented(check_trajectory, "friction q0 thermal_window rate")
    add_limits(parser)
    parser.add_value("--payload", PAYLOAD, LINK_AND_MASS, type=names, action="append", default=[])
    text = "compute the largest mass there with which the trajectory stays feasible; may be repeated"
    parser.add_value("--largest-payload", text, "LINK[,X,Y,Z]", type=names, action="append", default=[])
    times = parser.add_mutually_exclusive_group()
    parser.add_switch("--slow-down", "slow an infeasible trajectory down until it is feasible", to=times)
    text = "replace the times by the fastest feasible ones, from rest to rest (needs toppra)"
    parser.add_switch("--time-optimal", text, to=times)


def check_robot(robot, options, printer):
    """Check, print and write. Exit code 1 for an infeasible trajectory."""
    if options.q0 is not None and len(options.q0) != robot.nq:
        raise UsageError(f"--q0 needs {robot.nq} numbers, {', '.join(robot.q_names)}, not {len(options.q0)}")
    for words in options.payload:
        robot = loaded(robot, words)
    places = [(words[0], _point("--largest-payload", robot, words, 1)) for words in options.largest_payload]
    points, options.q0 = read_points(robot, options.input, options.q0)
    choices = arguments_of(options, check_trajectory) | {"limits": limits_of(robot, options)}
    with printer.progress("checking"):
        check = check_trajectory(robot, points, **choices)
    before = check.time[-1] - check.time[0]
    if options.slow_down and check.slowdown.limit is not None and check.slowdown.possible:
        limit, end, check = check.slowdown.limit, check.time[-1], check.slowed()
        scaled = check.time[-1] / end
        printer.data(slowed=scaled)
        printer.line(f"slowed down by {scaled:.4g}: {limit.quantity} of {limit.joint}")
    if options.time_optimal:
        with printer.progress("scaling"):
            check = _time_optimal(robot, points, choices)
        scaled = float((check.time[-1] - check.time[0]) / before) if before > 0 else 1.0
        printer.data(slowed=scaled)
        printer.line(f"time-optimal: {scaled:.4g} times the duration")
    payloads = [(link, check.largest_payload(link, com)) for link, com in places]
    _show(check, payloads, printer)
    _write(check, payloads, options, printer)
    return 0 if check.feasible else INFEASIBLE


def add_limits(parser):
    """--limits and --max-effort-rate."""
    parser.add_value("--limits", LIMITS, "FILE")
    text = "limit of the derivative of the efforts of all joints by time, N m/s or N/s"
    parser.add_value("--max-effort-rate", text, "RATE", type=positive)


def limits_of(robot, options):
    """Limits of --limits and --max-effort-rate."""
    limits = {} if options.limits is None else read_limits(options.limits)
    if (most := options.max_effort_rate) is not None:
        for name in (name for name in robot.v_names if name in robot.q_names):
            bounds = limits.setdefault(name, {})
            bounds["max_effort_rate"] = min(most, bounds.get("max_effort_rate", most))
    return limits


def _time_optimal(robot, points, choices):
    try:
        return scale_trajectory(robot, points, **choices)
    except ImportError as error:  # the message names what to install
        raise TableError(str(error)) from None


def read_points(robot, path, q0):
    """The trajectory of a file, and the positions of all joints at its start: q0, or those of the file."""
    if path.suffix not in TABLES:
        points, start = read_joint_trajectory(path)
        if q0 is None and start:
            pairs = zip(robot.q_names, robot.neutral(), strict=True)
            q0 = np.array([start.get(name, neutral) for name, neutral in pairs])
        return points, q0
    rows = read_table(path, robot, ("q", "qd", "qdd"), ("time", "q"))
    columns = list(range(robot.nv))
    if rows["q"].shape[1] == robot.nq:
        if missing := [name for name in robot.v_names if name not in robot.q_names]:
            raise InputError(f"{path}: a trajectory has no positions of {listed(missing)}")
        columns = [robot.q_names.index(name) for name in robot.v_names]
    nothing = np.full((len(rows["time"]), robot.nv), np.nan)
    rates = (rows.get(kind, nothing) for kind in ("qd", "qdd"))
    points = JointTrajectory(robot.v_names, rows["time"] - rows["time"][0], rows["q"][:, columns], *rates)
    return points, q0


def loaded(robot, words):
    """The robot with a payload of --payload."""
    link, mass, com = payload_of(robot, words)
    try:
        return with_payload(robot, link, mass, com)
    except ValueError as error:
        raise UsageError(f"--payload {link}: {error}") from None


def payload_of(robot, words):
    """Link, mass and center of mass of --payload."""
    if len(words) < 2:
        raise UsageError("--payload needs a link and its mass in kg: LINK,KG or LINK,KG,X,Y,Z")
    com = _point("--payload", robot, words, 2)
    try:
        return words[0], float(words[1]), com
    except ValueError as error:
        raise UsageError(f"--payload {words[0]}: {error}") from None


def _point(option, robot, words, first):
    """The point (3,) in the words of an option, from `first` on; the origin without any."""
    require_links(robot, option, words[:1])
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
        margins=[_entries(margin) for margin in check.margins],
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
    loads = {row["name"]: [row[kind] for kind in LOADS] for row in _loads(check)}
    used = {(margin.joint, margin.quantity): f"{100 * margin.used:.1f} %" for margin in check.margins}
    kinds = [kind for kind in USED if any(kind == margin.quantity for margin in check.margins)]
    joints = dict.fromkeys([*loads, *(margin.joint for margin in check.margins)])
    rows = [
        [name, *(used.get((name, kind), "-") for kind in kinds), *loads.get(name, ["-"] * len(LOADS))]
        for name in joints
    ]
    printer.table(("joint", *kinds, *HEAD), rows)
    printer.line(
        f"limits used; efforts N m or N, thermal: RMS over {check.options.thermal_window:g} s; power W, of "
        f"all joints {check.peak_total_power:.4g}; energy J, {check.energy.sum():.4g}"
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
