"""dynamics stop and stopping-table: the shortest stops within the limits of the motors."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.checking import (
    LIMITS,
    LINK_AND_MASS,
    PAYLOAD,
    add_limits,
    limits_of,
    loaded,
    payload_of,
    read_points,
)
from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, closed_position, require_links
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import count, file_to_write, names, numbers
from dynamics_node.errors import TableError
from dynamics_node.io.motion_files import message_text, read_limits
from dynamics_node.output_files import write_text
from dynamics_node.trajectory import check_trajectory, stop_on_path, stopping_table, stopping_trajectory
from dynamics_node.trajectory.motion_limits import described
from dynamics_node.trajectory.stopping_table import POSITIONS


def add_stop(commands):
    parser = add_command(
        commands,
        "stop",
        stop_robot,
        "Stop in the shortest time that efforts and other limits permit: all joints together, or on a path.",
        "robot.urdf --q 0,-0.5,0,-2,0,1.6,0.8 --qd 1.5,0.5,0,0,0,0,0 --links tool0",
        "robot.urdf --q 0,0.3 --qd 1,-1 --payload tool0,3 --limits joint_limits.yaml -o stop.yaml",
        "robot.urdf --trajectory plan.yaml --time 0.8 -o stop.yaml",
        parameters=True,
    )
    text = (
        "positions of all joints, or of the independent ones (default: zero; loops are closed); with "
        "--trajectory those of joints that it does not name"
    )
    parser.add_list("--q", text, "Q,...", numbers)
    motion = parser.add_mutually_exclusive_group(required=True)
    text = "velocities of the independent joints, which stop together"
    motion.add_argument("--qd", action="extend", type=numbers, metavar="QD,...", help=text)
    motion.add_argument(
        "--trajectory",
        type=Path,
        metavar="FILE",
        help="stop on the path of this file, as for `dynamics check` (needs toppra)",
    )
    parser.add_value(
        "--time", "when the stop on the path begins, in the times of the trajectory", "S", type=float
    )
    to_write = file_to_write(".yaml", ".yml")
    parser.add_value("-o --output", "the trajectory with its efforts", "FILE.yaml", type=to_write)
    parser.add_documented(stopping_trajectory, "qdd links longest friction", qdd="QDD,...", links="LINK,...")
    add_limits(parser)
    parser.add_value("--payload", PAYLOAD, LINK_AND_MASS, type=names, action="append", default=[])


def stop_robot(robot, options, printer):
    """Plan, print and write."""
    for words in options.payload:
        robot = loaded(robot, words)
    choices = arguments_of(options, stopping_trajectory) | {"limits": limits_of(robot, options)}
    require_links(robot, "--links", choices.get("links", ()))
    plan = _stop if options.trajectory is None else _stop_on_path
    stop = plan(robot, options, choices, printer)
    _show(stop, printer)
    if options.output is not None:
        write_text(options.output, message_text(stop.check.message()))
        printer.written(options.output)


def _stop(robot, options, choices, printer):
    if options.time is not None:
        raise UsageError("--time belongs to --trajectory")
    for option, values in (("--qd", options.qd), ("--qdd", options.qdd)):
        if values is not None and len(values) != robot.nv:
            raise UsageError(
                f"{option} needs {robot.nv} numbers, not {len(values)}: {', '.join(robot.v_names)}"
            )
    q = closed_position(robot, "--q", options.q)
    with printer.progress("searching"):
        return stopping_trajectory(robot, q, options.qd, **choices)


def _stop_on_path(robot, options, choices, printer):
    if options.time is None:
        raise UsageError("--trajectory needs --time: when the stop begins, s")
    if options.qdd is not None:
        raise UsageError("--qdd belongs to --qd: a stop on a path begins with the state of the trajectory")
    choices.pop("qdd", None)
    q0 = None if options.q is None else closed_position(robot, "--q", options.q)
    points, q0 = read_points(robot, options.trajectory, q0)
    try:
        with printer.progress("searching"):
            return stop_on_path(robot, points, options.time, q0=q0, **choices)
    except ImportError as error:  # the message names what to install
        raise TableError(str(error)) from None


def add_stopping_table(commands):
    parser = add_command(
        commands,
        "stopping-table",
        tabulate_stops,
        stopping_table,
        "robot.urdf --payload tool0,3 > decelerations.yaml",
        "robot.urdf --qd 1,1,1,2,2,2 --positions 1000 --limits joint_limits.yaml",
        "robot.urdf --trajectory plan.yaml",
        parameters=True,
    )
    parser.add_documented(stopping_table, "qd longest friction seed", qd="QD,...")
    to_write = file_to_write(".yaml", ".yml")
    parser.add_value("-o --output", "the decelerations, in place of stdout", "FILE.yaml", type=to_write)
    text = f"number of random positions within the limits (default: {POSITIONS})"
    parser.add_value("--positions", text, "N", type=count, default=POSITIONS)
    text = "as many positions along this file, as for `dynamics check`, in place of random ones"
    parser.add_value("--trajectory", text, "FILE", type=Path)
    parser.add_value("--limits", LIMITS, "FILE")
    parser.add_value(
        "--payload",
        "a point mass on a link, in its axes; the table holds with each of them, and without",
        LINK_AND_MASS,
        type=names,
        action="append",
        default=[],
    )


def tabulate_stops(robot, options, printer):
    """Compute and print."""
    choices = arguments_of(options, stopping_table) | {"positions": options.positions}
    choices["limits"] = {} if options.limits is None else read_limits(options.limits)
    if options.qd is not None and len(options.qd) != robot.nv:
        raise UsageError(f"--qd needs {robot.nv} numbers, not {len(options.qd)}: {', '.join(robot.v_names)}")
    payloads = [payload_of(robot, words) for words in options.payload]
    if options.trajectory is not None:
        points, q0 = read_points(robot, options.trajectory, None)
        q = check_trajectory(robot, points, q0=q0).q
        choices["positions"] = q[np.linspace(0, len(q) - 1, min(len(q), options.positions)).astype(int)]
    with printer.progress("searching"):
        table = stopping_table(robot, payloads=payloads, **choices)
    printer.data(
        joints=[row._asdict() | {"distance": row.distance} for row in table.rows],
        position=table.position,
        stops=table.stops,
        excluded=table.excluded,
    )
    if table.excluded:
        printer.note(
            f"{table.excluded} of {table.stops} stops do not count: the motors cannot sustain the speeds, or "
            "positions are beyond their limits"
        )
    if options.output is None:
        printer.line(table.yaml().rstrip())
    else:
        write_text(options.output, table.yaml())
        printer.written(options.output)


def _show(stop, printer):
    limit, check = stop.limit, stop.check
    efforts = dict(zip(check.robot.v_names, check.peak_effort.tolist(), strict=True))
    printer.data(
        time=stop.time,
        limit=None if limit is None else limit._asdict() | {"margin": limit.margin},
        joints=[
            {"name": name, "distance": way, "peak_effort": efforts[name]}
            for name, way in stop.distance.items()
        ],
        links={
            name: {"path": travel.path, "displacement": travel.displacement.tolist()}
            for name, travel in stop.links.items()
        },
        notes=check.notes,
    )
    for note in check.notes:
        printer.note(note)
    printer.line(f"stop of {stop.time:.4g} s")
    if limit is not None:
        printer.line(f"{described(limit)}: it prevents a shorter stop")
    speeds = dict(zip(check.robot.v_names, check.qd[0], strict=True))
    rows = [
        [name, f"{speeds[name]:.4g}", f"{way:.4g}", f"{efforts[name]:.4g}"]
        for name, way in stop.distance.items()
    ]
    printer.table(("joint", "velocity", "distance", "peak effort"), rows)
    if stop.links:
        ways = [
            [name, f"{travel.path:.4g}", f"{np.linalg.norm(travel.displacement):.4g}"]
            for name, travel in stop.links.items()
        ]
        printer.table(("link", "path", "displacement"), ways)
    printer.line("joints in rad or m and s, efforts N m or N; links in m")
