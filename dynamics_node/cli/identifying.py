"""dynamics identify: inertias and friction from recordings."""

import math
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
from dynamics_node.io import TableError, open_table
from dynamics_node.io.write import write_text
from dynamics_node.robot import inverse_dynamics
from dynamics_node.robot.overrides import overrides_text

NOT_BETTER = 2  # exit code


def add_parser(commands):
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
    moved = as_recorded(robot, options, options.recordings)
    measured = torques_of(robot, moved)
    open_one = partial(
        open_table, model=moved, problem=inverse_dynamics(moved), topic=options.topic,
        joints_map=joints_map(options), measured=measured, cutoff=cutoff(options),
        velocities=options.velocities,
    )  # fmt: skip
    tables = [open_one(path) for path in options.recordings]
    for path, table in zip(options.recordings, tables, strict=True):
        for note in table.notes:
            print(f"dynamics: {path}: {note}", file=sys.stderr)
    found = identify(
        moved, [table.chunks for table in tables], options.terms, options.method, options.prior_std,
        options.force, _cutoff(tables, options), partial(_bar, _total(tables)),
        measured=None if measured is True else measured,
    )  # fmt: skip
    _show(found)
    _write(found, description, tables, options)
    return 0 if found.better else NOT_BETTER


def _cutoff(tables, options):
    """Hz, of the low-pass for torques and regressors; None for none."""
    cutoffs = [table.cutoff for table in tables if table.cutoff is not None]
    return min(cutoffs, default=None) if not options.unfiltered else None


def _total(tables):
    """Rows, None if only reading tells."""
    counts = [table.rows for table in tables if table.rows is not None]
    return sum(counts) if len(counts) == len(tables) else None


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
