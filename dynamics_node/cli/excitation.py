"""dynamics design_excitation: the motion that makes a robot's base parameters best known."""

import math
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dynamics_node.cli.options import progress, robot_command
from dynamics_node.identification import TERMS, USUAL
from dynamics_node.identification.excitation import (
    CRITERIA,
    RATE,
    UNITS,
    Box,
    ExcitationTrajectory,
    design_excitation,
    message_text,
    read_limits,
    solutions,
)
from dynamics_node.io import plot_curves
from dynamics_node.io.write import write_text

RECORDED = 100.0  # samples a second, of expected standard deviations
MOST_POINTS = 100_000  # that are written
MOST_DRAWN = 20_000  # samples of the plot
SHOWN = 5  # base parameters that are known best, and worst
KINDS = ("position", "velocity", "acceleration", "torque")
OPEN = "-"  # in place of a wall


def add_excitation(commands):
    text = "a periodic motion that makes inertias and friction best known, within limits"
    parser = robot_command(commands, "excitation", excite_robot, text)
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="FOLDER",
        help="where trajectory.yaml, a JointTrajectory, and trajectory.png are written",
    )  # fmt: skip
    _add_motion(parser)
    _add_limits(parser)
    parser.add_argument(
        "--criterion", choices=tuple(CRITERIA), default="condition",
        help="condition: of the base regressor; volume: of what stays unknown (condition)",
    )  # fmt: skip
    parser.add_argument(
        "--units", choices=UNITS, default="usual",
        help="of parameters where the condition is told: their usual sizes, or si (usual)",
    )  # fmt: skip
    parser.add_argument(
        "--terms", nargs="+", choices=TERMS, default=list(USUAL),
        help=f"what will be identified ({' '.join(USUAL)})",
    )  # fmt: skip
    parser.add_argument(
        "--noise", type=float, nargs="+", default=[1.0], metavar="X",
        help="of torques, N m or N, of all or each (1)",
    )  # fmt: skip
    parser.add_argument("--restarts", type=int, default=4, metavar="N", help="of the search (4)")
    parser.add_argument("--seed", type=int, default=0, help="of random starts (0)")
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="of the search, after compiling: the best motion until then",
    )


def _add_motion(parser):
    parser.add_argument("--period", type=float, default=10.0, metavar="S", help="s (10)")
    parser.add_argument("--harmonics", type=int, default=5, metavar="N", help="of the base frequency (5)")
    parser.add_argument(
        "--start", type=float, nargs="+", metavar="Q", help="where the motion starts and ends (anywhere)"
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        metavar="HZ",
        help=f"points a second that are written ({RATE:g})",
    )


def _add_limits(parser):
    parser.add_argument(
        "--limits-factor", type=float, default=0.9, metavar="X", help="of all limits that is used (0.9)"
    )
    parser.add_argument("--velocity", type=float, metavar="X", help="at most of every joint, rad/s or m/s")
    parser.add_argument("--acceleration", type=float, metavar="X", help="the same, rad/s^2 or m/s^2")
    parser.add_argument(
        "--limits", type=Path, metavar="FILE", help="YAML with joint_limits, as of MoveIt: the tightest count"
    )
    parser.add_argument(
        "--box", nargs="+", action="append", default=[], metavar="X",
        help=f"LINK x0 x1 y0 y1 z0 z1 [x y z]: the link's origin, or a point on it, stays there; m, axes of "
        f"the root; {OPEN}: no wall",
    )  # fmt: skip


def excite_robot(robot, options):
    """Search, write, show."""
    boxes = [_box(words) for words in options.box]
    if not (math.isfinite(options.rate) and options.rate > 0):
        raise ValueError(f"--rate must be positive, not {options.rate:g}")
    if (points := options.period * options.rate) > MOST_POINTS:
        raise ValueError(f"{points:.0f} points: at most {MOST_POINTS} are written, take a lower --rate")
    limits = None if options.limits is None else read_limits(options.limits)
    with progress("solutions", solutions(options.criterion, options.restarts)) as advance:
        found = design_excitation(
            robot, options.period, options.harmonics, criterion=options.criterion, units=options.units,
            boxes=boxes, start=options.start, factor=options.limits_factor, velocity=options.velocity,
            acceleration=options.acceleration, limits=limits, noise=options.noise, terms=options.terms,
            restarts=options.restarts, seed=options.seed, time_limit=options.time_limit, advance=advance,
        )  # fmt: skip
    _show(found, options.limits_factor)
    _write(found, options)


def _box(words):
    """LINK and six numbers, or nine."""
    link, *numbers = words
    if len(numbers) not in (6, 9):
        raise ValueError(f"--box {link} needs 6 numbers, x0 x1 y0 y1 z0 z1, or 9, not {len(numbers)}")
    lower = [_wall(link, word, -math.inf) for word in numbers[0:6:2]]
    upper = [_wall(link, word, math.inf) for word in numbers[1:6:2]]
    return Box(link, lower, upper, [_wall(link, word, math.nan) for word in numbers[6:]] or np.zeros(3))


def _wall(link, word, missing):
    try:
        return missing if word == OPEN else float(word)
    except ValueError:
        raise ValueError(f"--box {link}: {word!r} is no number") from None


def _write(found: ExcitationTrajectory, options):
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "trajectory.yaml"
    write_text(path, message_text(found.message(options.rate)))
    print(f"written: {path}")
    if find_spec("matplotlib") is None:
        print("dynamics: no plot: pip install 'dynamics_node[tables]'", file=sys.stderr)
        return
    time, path = found.times(min(RECORDED, MOST_DRAWN / found.period)), options.out / "trajectory.png"
    plot_curves(path, time, list(_curves(found, time)), found.robot.name)
    print(f"written: {path}")


def _curves(found, time):
    rows = dict(zip(KINDS, (*found.states(time), found.torques(time)), strict=True))
    for power, kind in enumerate(KINDS):
        for k, joint in enumerate(found.robot.independent_joints):
            unit = "rad" if joint.type.turns else "m"
            rate = f"{unit}/s" + (f"^{power}" if power > 1 else "")
            unit = ("N m" if joint.type.turns else "N") if kind == "torque" else rate if power else unit
            yield joint.name, kind, unit, rows[kind][:, k], None


# --- what is printed ----------------------------------------------------------------------------------------


def _show(found: ExcitationTrajectory, factor):
    for note in found.notes:
        print(f"limits: {note}")
    base = found.base
    print(
        f"condition of the regressor of {base.count} base parameters: {found.before:.4g}, the best of "
        f"{found.tried} random motions; {found.condition:.4g} now"
    )
    _show_known(found)
    _show_used(found, factor)
    start = zip(found.robot.v_names, found.start.tolist(), strict=True)
    print("start and end, at rest: " + ", ".join(f"{name} {value:.4f}" for name, value in start))


def _show_known(found):
    count = round(found.period * RECORDED)
    std, base = found.std(count), found.base
    order = np.argsort(std / found.problem.regressor.sizes)
    noise = found.problem.regressor.noise
    told = f"{noise[0]:g}" if np.ptp(noise) == 0 else "the given"
    print(f"expected standard deviation from {count} samples with {told} N m (or N) of noise")
    ends = [order[:SHOWN], order[SHOWN:][-SHOWN:]]
    for what, own in zip(("best", "worst"), ends, strict=True):
        for k in own:
            print(f"  {what:5} {std[k]:9.2e}  {base.told[k]}")


def _show_used(found, factor):
    names, used = found.robot.v_names, dict(found.used)
    width = max(5, *(len(name) for name in names))
    print(f"used at most, of {100 * factor:g} % of every limit")
    print(f"{'joint':{width}} " + " ".join(f"{kind:>12}" for kind in KINDS))
    for name in names:
        own = (used.pop(f"{kind} of {name}", None) for kind in KINDS)
        print(f"{name:{width}} " + " ".join(f"{'-' if x is None else f'{100 * x:.1f} %':>12}" for x in own))
    for name, x in used.items():
        print(f"{name} in its box: {100 * x:.1f} %")
