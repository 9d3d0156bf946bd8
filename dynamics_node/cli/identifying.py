"""dynamics identify and payload: inertias, friction and payloads from recordings."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import yaml

from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, open_recordings, total_rows
from dynamics_node.cli.parser import RECORDING, add_command
from dynamics_node.cli.values import file_to_write, folder_to_write, one_of
from dynamics_node.errors import TableError
from dynamics_node.estimation import Payload, identify_payload, require_bearing
from dynamics_node.identification import (
    TERMS,
    Identified,
    identify,
    summary,
    worse_joints,
    write_page,
)
from dynamics_node.io import Tasks, connected
from dynamics_node.output_files import making, write_text
from dynamics_node.robot.overrides import overrides_text

REJECTED = 1  # exit code: torques are explained no better, or the motion excites too little
FILES = ("robot.urdf", "parameters.yaml", "report.yaml", "report.html")  # of identify
MOMENTS = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


# --- identify -----------------------------------------------------------------------------------------------


def add_identify(commands):
    parser = add_command(
        commands, "identify", identify_robot, identify,
        "robot.urdf run1.csv run2 --joints-map 'fer_*=panda_*' -o out",
        "robot.urdf archive/* -o out --cluster tcp://scheduler:8786", recorded=True,
    )  # fmt: skip
    _add_recordings(parser, "positions and efforts")
    text = "robot.urdf, parameters.yaml, report.yaml and report.html"
    parser.add_value("-o --output", text, "FOLDER", type=folder_to_write, required=True)
    parser.set_defaults(writes=FILES)
    terms = {"type": one_of(*TERMS), "metavar": "TERM,..."}
    parser.add_documented(identify, "terms method prior_std", terms=terms)
    text = "use torques as recorded (default: torques and regressors pass the accelerations' low-pass)"
    parser.add_switch("--unfiltered", text)
    text = "dask scheduler whose workers read the recordings, each by a task"
    parser.add_value("--cluster", text, "ADDRESS")


def _add_recordings(parser, text):
    """The argument of recordings, and the options for reading them."""
    parser.add_argument("recordings", type=Path, nargs="+", metavar="RECORDING", help=f"{text}: {RECORDING}")
    parser.add_recording()
    parser.add_derivatives()


def identify_robot(robot, options, printer):
    """Read, check, solve, judge, write; exit code REJECTED if the result explains the torques no better."""
    description = _description(options.urdf)
    with connected(options.cluster) if options.cluster else nullcontext() as client:
        tasks = None if client is None else Tasks(client)
        moved, (tables,), measured = open_recordings(robot, options, printer, options.recordings, tasks=tasks)
        result = identify(
            moved, [table.chunks for table in tables], **arguments_of(options, identify),
            cutoff=_cutoff(tables, options), progress=partial(_bar, printer, total_rows(tables)),
            measured=measured, names=[str(path) for path in options.recordings], client=client,
        )  # fmt: skip
    printer.data(better=result.better, **_report(result))
    _show(result, printer)
    _write(result, description, tables, options, printer)
    return 0 if result.better else REJECTED


def _cutoff(tables, options):
    """Cut-off in Hz of the low-pass for torques and regressors, or None."""
    cutoffs = [table.cutoff for table in tables if table.cutoff is not None]
    return min(cutoffs, default=None) if not options.unfiltered else None


def _bar(printer, most, name, total):
    """most: upper bound of the rows, for a stage with unknown total."""
    return printer.progress(name, most if total is None else total)


def _description(path):
    """Text of the description, read before long computations."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8: convert it with iconv -t utf-8") from None


def _write(result: Identified, description, tables, options, printer):
    paths = [options.output / name for name in FILES]
    urdf, parameters, report, page = paths
    rows = zip(options.recordings, tables, strict=True)
    sources = [(str(path), "; ".join(table.notes) or "no derived quantities") for path, table in rows]
    with making(options.output):
        write_text(urdf, result.text(description))
        write_text(parameters, overrides_text(result.numbers))
        write_text(report, yaml.safe_dump(_report(result), sort_keys=False))
        write_page(result, page, sources)
    for path in paths:
        printer.written(path)


def _report(result):
    base, solution = result.base, result.solution
    rows = zip(base.expressions, solution.x.tolist(), solution.std.tolist(), strict=True)
    return {
        "base_parameters": [{"is": text, "value": x, "std": std} for text, x, std in rows],
        "parameters": dict(zip(base.names, result.parameters.tolist(), strict=True)),
        "terms": list(result.linear.terms),
        "undetermined": list(result.excitation.undetermined),
        "unidentifiable": list(base.unidentifiable),
        "condition": result.excitation.condition,
        "states": result.rows,
        "rms": {
            name: {
                "described": float(result.rmse_nominal[k]),
                "identified": float(result.rmse_fitted[k]),
                "unseen": float(result.rmse_cross_validated[k]),
                "noise": float(solution.spread[k]),
            }
            for name, _, k in result.joints
        },
        "warnings": list(result.warnings),
        "worse": worse_joints(result),
    }


def _show(result, printer):
    """Print the summary, the verdict first."""
    for verdict in sorted(summary(result), key=lambda verdict: verdict.stage != "judge"):
        printer.line(f"{verdict.stage}: {verdict.text}")
    errors = result.rmse_nominal, result.rmse_fitted, result.rmse_cross_validated
    printer.line("RMS of measured minus computed torque")
    rows = [[name, *(error[k] for error in errors)] for name, _, k in result.joints]
    printer.table(("joint", "described", "identified", "unseen"), rows)


# --- payload ------------------------------------------------------------------------------------------------


def add_payload(commands):
    parser = add_command(
        commands, "payload", estimate_payload, identify_payload,
        "robot.urdf loaded.csv --link tool0 --tare empty.csv -o payload.yaml", recorded=True,
    )  # fmt: skip
    _add_recordings(parser, "positions and efforts with the payload")
    parser.add_documented(identify_payload, "link friction", link={"required": True})
    text = "recording of the same robot without the payload, to separate friction; may be repeated"
    parser.add_value("--tare", text, "RECORDING", type=Path, action="append", default=[])
    text = "YAML of a request of ~/set_payload, if the motion excites the payload"
    parser.add_value("-o --output", text, "FILE", type=file_to_write())


def estimate_payload(robot, options, printer):
    """Read, solve, print, write; exit code REJECTED if the motion excites too little."""
    try:
        require_bearing(robot, options.link)
    except KeyError as error:
        raise UsageError(f"--link: {error.args[0]}") from None
    moved, (tables, tares), measured = open_recordings(
        robot, options, printer, options.recordings, options.tare
    )
    with printer.progress("states", total_rows(tares + tables)) as progress:
        payload = identify_payload(
            moved, recordings=[table.chunks for table in tables], tare=[table.chunks for table in tares],
            **arguments_of(options, identify_payload), progress=progress, measured=measured,
        )  # fmt: skip
    _show_payload(payload, printer)
    if payload.refusal:
        return REJECTED
    printer.data(request=request(payload))
    if options.output:
        write_text(options.output, yaml.safe_dump(request(payload), sort_keys=False))
        printer.written(options.output)
    return 0


def request(payload: Payload):
    """Request of dynamics_interfaces/srv/SetPayload."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = payload.inertia.tolist()
    com = dict(zip("xyz", payload.com.tolist(), strict=True))
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    return {"link": payload.link, "inertia": {"m": payload.mass, "com": com} | moments}


def _show_payload(payload: Payload, printer):
    """Print the table and the verdict."""
    mass = payload.mass if not payload.refusal else float(payload.fitted.x[0])
    printer.data(
        link=payload.link, states=payload.samples, condition=payload.condition, mass=mass,
        mass_std=payload.mass_std, not_excited=payload.not_excited, refusal=payload.refusal,
        caution=payload.caution, warnings=payload.warnings,
    )  # fmt: skip
    for warning in payload.warnings:
        printer.line(f"check: {warning}")
    printer.line(f"{payload.samples} states, condition {payload.condition:.3g}")
    rows = [["mass [kg]", mass, f"{payload.mass_std:.2g}"]]
    if mass > 0:  # else there is no center
        for axis, value, std in zip("xyz", payload.com, payload.com_std, strict=True):
            rows.append([f"center of mass {axis} [m]", value, f"{std:.2g}"])
        rows += [[f"inertia {axes} [kg m^2]", payload.inertia[at], ""] for axes, at in MOMENTS.items()]
    printer.table(("", "value", "std"), rows)
    for text in payload.not_excited:
        printer.line(f"check: {text}")
    if payload.refusal:
        printer.line(f"judge: {payload.refusal}")
        return
    printer.line("judge: ready for set_payload" + (f"; {payload.caution}" if payload.caution else ""))
