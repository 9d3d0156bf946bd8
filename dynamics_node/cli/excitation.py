"""dynamics excitation: the motion that determines a robot's base parameters best."""

import math
from importlib.util import find_spec

import numpy as np

from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, require_links
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import folder_to_write, names, one_of, positive
from dynamics_node.errors import ExcitationError, ModelError
from dynamics_node.identification import TERMS
from dynamics_node.identification.excitation import (
    RATE,
    Box,
    ExcitationTrajectory,
    design_excitation,
    solutions,
)
from dynamics_node.io import plot_curves
from dynamics_node.io.motion_files import message_text, read_limits
from dynamics_node.optional import install_command
from dynamics_node.output_files import making, write_text

RECORDED = 100.0  # samples per second, for expected standard deviations
MOST_POINTS = 100_000  # points per file
MOST_DRAWN = 20_000  # samples of the plot
ENDS = 5  # base parameters of each end of the list, best and worst determined
KINDS = ("position", "velocity", "acceleration", "torque")
OPEN = "-"  # no wall
POINTS, DRAWING = "trajectory.yaml", "trajectory.png"


def add_excitation(commands):
    parser = add_command(
        commands,
        "excitation",
        design_motion,
        design_excitation,
        "robot.urdf -o excited --acceleration 5 --box hand,0.2,0.8,-0.5,0.5,0.1,-",
    )
    text = "trajectory.yaml, a JointTrajectory, and trajectory.png"
    parser.add_value("-o --output", text, "FOLDER", type=folder_to_write, required=True)
    parser.set_defaults(writes=(POINTS, DRAWING))
    parser.add_documented(
        design_excitation,
        "period harmonics q0 factor velocity acceleration criterion units noise terms restarts seed "
        "time_limit",
        terms={"type": one_of(*TERMS), "metavar": "TERM,..."},
        time_limit={"type": float},
    )
    text = f"points a second of trajectory.yaml (default: {RATE:g})"
    parser.add_value("--rate", text, "HZ", type=positive, default=RATE)
    parser.add_value("--limits", "YAML with joint_limits as for MoveIt; the tightest limit counts", "FILE")
    text = (
        "keep the link's origin, or a point on it, within these bounds, m, axes of the root; "
        f"{OPEN}: no bound; may be repeated"
    )
    words = {"type": names, "action": "append", "default": []}
    parser.add_value("--box", text, "LINK,X0,X1,Y0,Y1,Z0,Z1[,X,Y,Z]", **words)


def design_motion(robot, options, printer):
    """Search, write, print."""
    boxes = [_box(robot, words) for words in options.box]
    if (points := options.period * options.rate) > MOST_POINTS:
        raise UsageError(f"{points:.0f} points: at most {MOST_POINTS} are written, use a lower --rate")
    choices = arguments_of(options, design_excitation) | {"boxes": boxes}
    choices["limits"] = None if options.limits is None else read_limits(options.limits)
    with printer.progress("solutions", solutions(options.criterion, options.restarts)) as progress:
        try:
            motion = design_excitation(robot, **choices, progress=progress)
        except (ExcitationError, ModelError):
            raise
        except ValueError as error:  # an invalid argument comes from an option
            raise UsageError(str(error)) from None
    _show(motion, options.factor, printer)
    _write(motion, options, printer)


def _box(robot, words):
    """The Box of a link and six numbers, or nine."""
    link, *bounds = words
    require_links(robot, "--box", [link])
    if len(bounds) not in (6, 9):
        raise UsageError(f"--box {link} needs 6 numbers, x0,x1,y0,y1,z0,z1, or 9, not {len(bounds)}")
    lower = [_wall(link, word, -math.inf) for word in bounds[0:6:2]]
    upper = [_wall(link, word, math.inf) for word in bounds[1:6:2]]
    return Box(link, lower, upper, [_wall(link, word, math.nan) for word in bounds[6:]] or np.zeros(3))


def _wall(link, word, missing):
    try:
        return missing if word == OPEN else float(word)
    except ValueError:
        raise UsageError(f"--box {link}: {word!r} is not a number") from None


def _write(motion: ExcitationTrajectory, options, printer):
    points, drawing = options.output / POINTS, options.output / DRAWING
    plots = find_spec("matplotlib") is not None
    with making(options.output):
        write_text(points, message_text(motion.message(options.rate)))
        if plots:
            time = motion.times(min(RECORDED, MOST_DRAWN / motion.period))
            plot_curves(drawing, time, list(_curves(motion, time)), motion.robot.name)
    printer.written(points)
    if plots:
        printer.written(drawing)
    else:
        printer.note(f"no plot: {install_command('matplotlib')}")


def _curves(motion, time):
    rows = dict(zip(KINDS, (*motion.states(time), motion.torques(time)), strict=True))
    for power, kind in enumerate(KINDS):
        for k, joint in enumerate(motion.robot.independent_joints):
            unit = "rad" if joint.type.turns else "m"
            rate = f"{unit}/s" + (f"^{power}" if power > 1 else "")
            unit = ("N m" if joint.type.turns else "N") if kind == "torque" else rate if power else unit
            yield joint.name, kind, unit, rows[kind][:, k], None


# --- printing -----------------------------------------------------------------------------------------------


def _show(motion: ExcitationTrajectory, factor, printer):
    base, robot = motion.base, motion.robot
    start = dict(zip(robot.v_names, motion.start.tolist(), strict=True))
    printer.data(
        base_parameters=base.count, condition=motion.condition, condition_of_random=motion.before,
        random_motions=motion.tried, start=start, used=dict(motion.used), notes=motion.notes,
    )  # fmt: skip
    for note in motion.notes:
        printer.line(f"limits: {note}")
    printer.line(
        f"condition of the regressor of {base.count} base parameters: {motion.condition:.4g}; the best of "
        f"{motion.tried} random motions has {motion.before:.4g}"
    )
    _show_deviations(motion, printer)
    _show_limits(motion, factor, printer)
    printer.line(
        "start and end, at rest: " + ", ".join(f"{name} {value:.4f}" for name, value in start.items())
    )


def _show_deviations(motion, printer):
    count = round(motion.period * RECORDED)
    std, base = motion.std(count), motion.base
    order = np.argsort(std / motion.problem.regressor.sizes)
    noise = motion.problem.regressor.noise
    assumed = f"{noise[0]:g}" if np.ptp(noise) == 0 else "the given"
    printer.line(
        f"expected standard deviation from {count} samples with torque noise of {assumed} N m (or N)"
    )
    for end, some in (("best", order[:ENDS]), ("worst", order[ENDS:][-ENDS:])):
        for k in some:
            printer.line(f"  {end:5} {std[k]:9.2e}  {base.expressions[k]}")


def _show_limits(motion, factor, printer):
    used = dict(motion.used)
    printer.line(f"largest use of the limits, of the {100 * factor:g} % available")
    rows = [[name, *(used.pop(f"{kind} of {name}", None) for kind in KINDS)] for name in motion.robot.v_names]
    cells = [[name, *("-" if x is None else f"{100 * x:.1f} %" for x in row)] for name, *row in rows]
    printer.table(("joint", *KINDS), cells)
    for name, x in used.items():
        printer.line(f"{name} in its box: {100 * x:.1f} %")
