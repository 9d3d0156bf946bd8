"""dynamics identify and payload: inertias, friction and payloads from recordings."""

from functools import partial
from pathlib import Path

import yaml

from dynamics_node.cli.options import (
    RECORDING,
    UsageError,
    add_command,
    add_derivatives,
    add_output,
    add_recording,
    add_strict,
    file_to_write,
    folder_to_write,
    one_of,
    open_recordings,
    positive,
    total_rows,
)
from dynamics_node.errors import TableError
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
from dynamics_node.output_files import making, write_text
from dynamics_node.robot.overrides import overrides_text

REJECTED = 1  # exit code: torques are explained no better, or the motion excites too little
FILES = ("robot.urdf", "parameters.yaml", "report.yaml", "report.html")  # of identify
MOMENTS = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


# --- identify -----------------------------------------------------------------------------------------------


def add_identify(commands):
    parser = add_command(
        commands, "identify", identify_robot,
        "Identify inertias and friction from recordings, and write the description with them.",
        ["robot.urdf run1.csv run2 --joints-map 'fer_*=panda_*' -o out"],
    )  # fmt: skip
    add_strict(parser)
    parser.add_argument(
        "recordings", type=Path, nargs="+", metavar="RECORDING", help=f"positions and efforts: {RECORDING}"
    )
    add_output(
        parser, folder_to_write, "robot.urdf, parameters.yaml, report.yaml and report.html",
        metavar="FOLDER", required=True,
    )  # fmt: skip
    parser.set_defaults(writes=FILES)
    add_recording(parser)
    parser.add_argument(
        "--terms", action="extend", type=one_of(*TERMS), metavar="TERM,...",
        help=f"what is identified, of {', '.join(TERMS)} (default: {','.join(USUAL)}, and others that help)",
    )  # fmt: skip
    parser.add_argument(
        "--method", choices=METHODS, default="weighted", help="least squares (default: weighted)"
    )
    parser.add_argument(
        "--prior-std", type=positive, default=1.0, metavar="X",
        help="expected relative error of the described inertias: a small one keeps poorly excited parameters "
        "close to the description (default: 1)",
    )  # fmt: skip
    add_derivatives(parser)
    parser.add_argument(
        "--unfiltered", action="store_true",
        help="use torques as recorded (default: torques and regressors pass the accelerations' low-pass)",
    )  # fmt: skip


def identify_robot(robot, options, printer):
    """Read, check, solve, judge, write; exit code REJECTED if the result explains the torques no better."""
    description = _description(options.urdf)
    moved, (tables,), measured = open_recordings(robot, options, printer, options.recordings)
    result = identify(
        moved, [table.chunks for table in tables], options.terms, options.method,
        options.prior_std, _cutoff(tables, options),
        partial(_bar, printer, total_rows(tables)), measured=measured,
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
    """Print the summary."""
    verdicts = list(summary(result))
    for verdict in verdicts:
        if verdict.stage != "judge":
            printer.line(f"{verdict.stage}: {verdict.text}")
    width = max(5, *(len(name) for name, _, _ in result.joints))
    printer.line("RMS of measured minus computed torque")
    printer.line(f"{'joint':{width}} {'described':>10} {'identified':>10} {'unseen':>10}")
    for name, _, k in result.joints:
        values = result.rmse_nominal[k], result.rmse_fitted[k], result.rmse_cross_validated[k]
        printer.line(f"{name:{width}} " + " ".join(f"{value:10.4g}" for value in values))
    for verdict in verdicts:
        if verdict.stage == "judge":
            printer.line(f"{verdict.stage}: {verdict.text}")


# --- payload ------------------------------------------------------------------------------------------------


def add_payload(commands):
    parser = add_command(
        commands, "payload", estimate_payload,
        "Estimate mass, center of mass and inertia of a payload from recorded torques.",
        ["robot.urdf loaded.csv --link tool0 --tare empty.csv -o payload.yaml"],
    )  # fmt: skip
    add_strict(parser)
    parser.add_argument(
        "recordings", type=Path, nargs="+", metavar="RECORDING",
        help=f"positions and efforts with the payload: {RECORDING}",
    )  # fmt: skip
    parser.add_argument("--link", required=True, help="link that carries the payload")
    parser.add_argument(
        "--tare", type=Path, action="append", default=[], metavar="RECORDING",
        help="recording of the same robot without the payload, to separate friction; may be repeated",
    )  # fmt: skip
    add_output(
        parser, file_to_write(), "YAML of a request of ~/set_payload, if the motion excites the payload",
        metavar="FILE",
    )  # fmt: skip
    add_recording(parser)
    parser.add_argument(
        "--no-friction", action="store_true",
        help="take friction as described (default: identify an offset, Coulomb and viscous friction of every "
        "joint)",
    )  # fmt: skip
    add_derivatives(parser)


def estimate_payload(robot, options, printer):
    """Read, solve, print, write; exit code REJECTED if the motion excites too little."""
    try:
        require_bearing(robot, options.link)
    except KeyError as error:
        raise UsageError(f"--link: {error.args[0]}") from None
    moved, (tables, tares), measured = open_recordings(
        robot, options, printer, options.recordings, options.tare
    )
    with printer.progress("states", total_rows(tares + tables)) as advance:
        payload = identify_payload(
            moved, options.link, [table.chunks for table in tables], tare=[table.chunks for table in tares],
            friction=not options.no_friction, advance=advance, measured=measured,
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
    printer.line(f"{'':24} {'value':>10} {'std':>10}")
    printer.line(f"{'mass [kg]':24} {mass:10.4g} {payload.mass_std:10.2g}")
    if mass > 0:  # else there is no center
        for axis, value, std in zip("xyz", payload.com, payload.com_std, strict=True):
            printer.line(f"{f'center of mass {axis} [m]':24} {value:10.4g} {std:10.2g}")
        for axes, (i, j) in MOMENTS.items():
            printer.line(f"{f'inertia {axes} [kg m^2]':24} {payload.inertia[i, j]:10.4g}")
    for text in payload.not_excited:
        printer.line(f"check: {text}")
    if payload.refusal:
        printer.line(f"judge: {payload.refusal}")
        return
    printer.line("judge: ready for set_payload" + (f"; {payload.caution}" if payload.caution else ""))
