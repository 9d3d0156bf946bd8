"""dynamics stop: the shortest stop within the limits of the motors."""

import numpy as np

from dynamics_node.cli.checking import limits_of, loaded
from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, closed_position, require_links
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import file_to_write, names, numbers, positive
from dynamics_node.io.motion_files import message_text
from dynamics_node.output_files import write_text
from dynamics_node.trajectory import stopping_trajectory
from dynamics_node.trajectory.motion_limits import described


def add_stop(commands):
    parser = add_command(
        commands,
        "stop",
        stop_robot,
        stopping_trajectory,
        "robot.urdf --q 0,-0.5,0,-2,0,1.6,0.8 --qd 1.5,0.5,0,0,0,0,0 --links tool0",
        "robot.urdf --q 0,0.3 --qd 1,-1 --payload tool0,3 --limits joint_limits.yaml -o stop.yaml",
        parameters=True,
    )
    text = "positions of all joints, or of the independent ones (default: zero; loops are closed)"
    parser.add_list("--q", text, "Q,...", numbers)
    text = "velocities of the independent joints"
    parser.add_argument("--qd", action="extend", type=numbers, required=True, metavar="QD,...", help=text)
    to_write = file_to_write(".yaml", ".yml")
    parser.add_value("-o --output", "the trajectory with its efforts", "FILE.yaml", type=to_write)
    parser.add_documented(stopping_trajectory, "qdd links longest friction", qdd="QDD,...", links="LINK,...")
    parser.add_value("--limits", "YAML with joint_limits as for MoveIt; the tightest limit counts", "FILE")
    text = "limit of the derivative of the efforts of all joints by time, N m/s or N/s"
    parser.add_value("--max-effort-rate", text, "RATE", type=positive)
    text = "a point mass on a link, at a point in its axes, m (default: its origin); may be repeated"
    parser.add_value("--payload", text, "LINK,KG[,X,Y,Z]", type=names, action="append", default=[])


def stop_robot(robot, options, printer):
    """Plan, print and write."""
    for words in options.payload:
        robot = loaded(robot, words)
    choices = arguments_of(options, stopping_trajectory) | {"limits": limits_of(robot, options)}
    for option, values in (("--qd", options.qd), ("--qdd", options.qdd)):
        if values is not None and len(values) != robot.nv:
            raise UsageError(
                f"{option} needs {robot.nv} numbers, not {len(values)}: {', '.join(robot.v_names)}"
            )
    require_links(robot, "--links", choices.get("links", ()))
    q = closed_position(robot, "--q", options.q)
    with printer.progress("searching"):
        stop = stopping_trajectory(robot, q, options.qd, **choices)
    _show(stop, printer)
    if options.output is not None:
        write_text(options.output, message_text(stop.check.message()))
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
