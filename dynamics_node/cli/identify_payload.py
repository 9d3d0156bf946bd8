"""dynamics payload: what a link carries, from recordings."""

import sys
from functools import partial
from pathlib import Path

import yaml

from dynamics_node.cli.options import (
    add_derivatives,
    add_recording,
    as_recorded,
    cutoff,
    joints_map,
    progress,
    robot_command,
    torques_of,
)
from dynamics_node.estimation import Payload, identify_payload, require_bearing
from dynamics_node.io import open_table
from dynamics_node.io.write import write_text
from dynamics_node.robot import inverse_dynamics

NOT_TOLD = 2  # exit code
MOMENTS = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


def add_parser(commands):
    text = "mass, centre of mass and inertia of what a link carries, from recorded torques"
    parser = robot_command(commands, "payload", estimate, text)
    parser.add_argument(
        "recordings", type=Path, nargs="+", metavar="RECORDING",
        help="positions and efforts with the payload: .npz, .csv, .parquet, a rosbag2 folder, .db3, .mcap, "
        "a ROS 1 .bag",
    )  # fmt: skip
    parser.add_argument("--link", required=True, help="that carries it")
    parser.add_argument(
        "--tare", type=Path, nargs="+", default=[], metavar="RECORDING",
        help="of the same robot with nothing on the link: tells friction apart",
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="YAML of a request of set_payload, written if it is told",
    )
    add_recording(parser)
    parser.add_argument(
        "--no-friction", action="store_true",
        help="friction is as described, instead of unknown: an offset, Coulomb and viscous at every joint",
    )  # fmt: skip
    add_derivatives(parser)


def estimate(robot, options):
    """Read, solve, show, write; exit code 2 where the motion tells too little."""
    try:
        require_bearing(robot, options.link)
    except KeyError as error:
        raise ValueError(f"--link: {error.args[0]}") from None
    moved = as_recorded(robot, options, [*options.recordings, *options.tare])
    measured = torques_of(robot, moved)
    open_one = partial(
        open_table, model=moved, problem=inverse_dynamics(moved), topic=options.topic,
        joints_map=joints_map(options), measured=measured, cutoff=cutoff(options),
        velocities=options.velocities,
    )  # fmt: skip
    tables, tares = (
        [_opened(open_one, path) for path in paths] for paths in (options.recordings, options.tare)
    )
    counts = [table.rows for table in tares + tables]
    with progress("states", None if None in counts else sum(counts)) as advance:
        found = identify_payload(
            moved, options.link, [table.chunks for table in tables], tare=[table.chunks for table in tares],
            friction=not options.no_friction, advance=advance,
            measured=None if measured is True else measured,
        )  # fmt: skip
    _show(found)
    _judge(found)
    if found.refusal:
        return NOT_TOLD
    if options.out:
        write_text(options.out, yaml.safe_dump(request(found), sort_keys=False))
    return 0


def _opened(open_one, path):
    table = open_one(path)
    for note in table.notes:
        print(f"dynamics: {path}: {note}", file=sys.stderr)
    return table


def request(found: Payload):
    """Of dynamics_interfaces/srv/SetPayload."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = found.inertia.tolist()
    com = dict(zip("xyz", found.com.tolist(), strict=True))
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    return {"link": found.link, "inertia": {"m": found.mass, "com": com} | moments}


def _show(found: Payload):
    """Print the table."""
    for told in found.warnings:
        print(f"check: {told}")
    print(f"{found.samples} states, condition {found.condition:.3g}")
    print(f"{'':24} {'value':>10} {'std':>10}")
    mass = found.mass if not found.refusal else float(found.fitted.x[0])
    print(f"{'mass [kg]':24} {mass:10.4g} {found.mass_std:10.2g}")
    if not mass > 0:  # nothing has a centre
        return
    for axis, value, std in zip("xyz", found.com, found.com_std, strict=True):
        print(f"{f'centre of mass {axis} [m]':24} {value:10.4g} {std:10.2g}")
    for axes, (i, j) in MOMENTS.items():
        print(f"{f'inertia {axes} [kg m^2]':24} {found.inertia[i, j]:10.4g}")


def _judge(found: Payload):
    """Print the verdict."""
    for told in found.not_excited:
        print(f"check: {told}")
    print(f"judge: {found.refusal}" if found.refusal else "judge: good to be set")
