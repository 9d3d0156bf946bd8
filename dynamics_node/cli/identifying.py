"""dynamics identify and payload: inertias and friction, and what a link carries, from recordings."""

import math
from functools import partial
from pathlib import Path

import yaml

from dynamics_node.cli.options import (
    add_derivatives,
    add_recording,
    open_recordings,
    progress,
    robot_command,
    total_rows,
)
from dynamics_node.estimation import Payload, identify_payload, require_bearing
from dynamics_node.identification import (
    METHODS,
    TERMS,
    USUAL,
    Identified,
    identify,
    summary,
    worse_joints,
    write_page,
)
from dynamics_node.io import TableError
from dynamics_node.io.write import write_text
from dynamics_node.robot.overrides import overrides_text

REJECTED = 2  # exit code: torques are explained no better, or the motion tells too little
MOMENTS = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


# --- identify -----------------------------------------------------------------------------------------------


def add_identify(commands):
    text = "inertias and friction that explain recorded torques, and the description with them"
    parser = robot_command(commands, "identify", identify_robot, text)
    parser.add_argument(
        "recordings", type=Path, nargs="+", metavar="RECORDING",
        help="positions and efforts: .npz, .csv, .parquet, a rosbag2 folder, .db3, .mcap, a ROS 1 .bag",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="FOLDER", help="where results are written"
    )
    add_recording(parser)
    parser.add_argument(
        "--terms",
        nargs="+",
        choices=TERMS,
        default=list(USUAL),
        help=f"what is identified ({' '.join(USUAL)})",
    )
    parser.add_argument("--method", choices=METHODS, default="weighted", help="of least squares (weighted)")
    parser.add_argument(
        "--prior-std", type=float, default=1.0, metavar="X",
        help="how far described inertias may be off, relative: what torques tell vaguely follows them (1)",
    )  # fmt: skip
    add_derivatives(parser)
    parser.add_argument(
        "--unfiltered", action="store_true",
        help="torques as they are recorded; default: where accelerations are derivatives, torques and "
        "regressors go through the same low-pass",
    )  # fmt: skip
    parser.add_argument(
        "--force", action="store_true", help="go on although the motion does not tell everything"
    )


def identify_robot(robot, options):
    """Read, check, solve, judge, write; exit code 2 where the result explains the torques no better."""
    if not (math.isfinite(options.prior_std) and options.prior_std > 0):
        raise TableError(f"--prior-std must be positive, not {options.prior_std:g}")
    description = _description(options.urdf)
    moved, (tables,), measured = open_recordings(robot, options, options.recordings)
    found = identify(
        moved, [table.chunks for table in tables], options.terms, options.method, options.prior_std,
        options.force, _cutoff(tables, options), partial(_bar, total_rows(tables)), measured=measured,
    )  # fmt: skip
    _show(found)
    _write(found, description, tables, options)
    return 0 if found.better else REJECTED


def _cutoff(tables, options):
    """Hz, of the low-pass for torques and regressors; None for none."""
    cutoffs = [table.cutoff for table in tables if table.cutoff is not None]
    return min(cutoffs, default=None) if not options.unfiltered else None


def _bar(most, name, total):
    """most: rows at most, for the stage that does not know its total."""
    return progress(name, most if total is None else total)


def _description(path):
    """Its text, before anything takes long."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8, as what is written of it is to be: iconv -t utf-8") from None


def _write(found: Identified, description, tables, options):
    options.out.mkdir(parents=True, exist_ok=True)
    write_text(options.out / "robot.urdf", found.text(description))
    write_text(options.out / "parameters.yaml", overrides_text(found.numbers))
    told = yaml.safe_dump(_told(found), sort_keys=False)
    write_text(options.out / "report.yaml", told)
    rows = zip(options.recordings, tables, strict=True)
    sources = [(str(path), "; ".join(table.notes) or "all is recorded") for path, table in rows]
    write_page(found, options.out / "report.html", sources)
    print(f"written: {options.out}/ robot.urdf, parameters.yaml, report.yaml, report.html")


def _told(found):
    base, solution = found.base, found.solution
    rows = zip(base.told, solution.x.tolist(), solution.std.tolist(), strict=True)
    return {
        "base_parameters": [{"is": told, "value": x, "std": std} for told, x, std in rows],
        "parameters": dict(zip(base.names, found.parameters.tolist(), strict=True)),
        "unidentifiable": list(base.unidentifiable),
        "condition": found.excitation.condition,
        "states": found.rows,
        "rms": {
            name: {
                "described": float(found.rmse_nominal[k]),
                "identified": float(found.rmse_fitted[k]),
                "unseen": float(found.rmse_cross_validated[k]),
                "noise": float(solution.spread[k]),
            }
            for name, _, k in found.joints
        },
        "warnings": list(found.warnings),
        "worse": worse_joints(found),
    }


def _show(found):
    """Print the summary."""
    told = list(summary(found))
    for verdict in told:
        if verdict.stage != "judge":
            print(f"{verdict.stage}: {verdict.told}")
    width = max(5, *(len(name) for name, _, _ in found.joints))
    print("RMS of measured less computed torque")
    print(f"{'joint':{width}} {'described':>10} {'identified':>10} {'unseen':>10}")
    for name, _, k in found.joints:
        values = found.rmse_nominal[k], found.rmse_fitted[k], found.rmse_cross_validated[k]
        print(f"{name:{width}} " + " ".join(f"{value:10.4g}" for value in values))
    for verdict in told:
        if verdict.stage == "judge":
            print(f"{verdict.stage}: {verdict.told}")


# --- payload ------------------------------------------------------------------------------------------------


def add_payload(commands):
    text = "mass, centre of mass and inertia of what a link carries, from recorded torques"
    parser = robot_command(commands, "payload", estimate_payload, text)
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


def estimate_payload(robot, options):
    """Read, solve, show, write; exit code 2 where the motion tells too little."""
    try:
        require_bearing(robot, options.link)
    except KeyError as error:
        raise ValueError(f"--link: {error.args[0]}") from None
    moved, (tables, tares), measured = open_recordings(robot, options, options.recordings, options.tare)
    with progress("states", total_rows(tares + tables)) as advance:
        found = identify_payload(
            moved, options.link, [table.chunks for table in tables], tare=[table.chunks for table in tares],
            friction=not options.no_friction, advance=advance, measured=measured,
        )  # fmt: skip
    _show_payload(found)
    _judge(found)
    if found.refusal:
        return REJECTED
    if options.out:
        write_text(options.out, yaml.safe_dump(request(found), sort_keys=False))
    return 0


def request(found: Payload):
    """Of dynamics_interfaces/srv/SetPayload."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = found.inertia.tolist()
    com = dict(zip("xyz", found.com.tolist(), strict=True))
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    return {"link": found.link, "inertia": {"m": found.mass, "com": com} | moments}


def _show_payload(found: Payload):
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
