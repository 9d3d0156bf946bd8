"""Write a TrajectoryCheck as one self-contained HTML page: text and SVG, no scripts."""

from pathlib import Path

import numpy as np

from dynamics_node.io import Figures, bold, bullet_list, panel, table, text, write_blocks
from dynamics_node.trajectory.motion_limits import described, joint_limits
from dynamics_node.trajectory.trajectory_check import TrajectoryCheck

MOST_DRAWN = 4000  # samples of a curve
_CURVE, _LIMIT = "#2f6fb5", "#c4572b"


def write_check(check: TrajectoryCheck, path, payloads=()) -> Path:
    """Write the page to a path and return it; missing folders are created. payloads: (link, mass) of the
    largest payloads."""
    figures = Figures()
    blocks = _blocks(check, payloads, figures)
    return write_blocks(path, f"{check.robot.name}: check of a trajectory", blocks, figures)


def remedy(check: TrajectoryCheck) -> str:
    """The slowdown of an infeasible trajectory, as a sentence."""
    slowdown = check.slowdown
    if slowdown.limit is None:
        return "no slowdown needed"
    if slowdown.possible:
        limit = f"{slowdown.limit.quantity} of {slowdown.limit.joint} at {slowdown.limit.time:.4g} s"
        return f"feasible {slowdown.factor:.4g} times slower; {limit} bounds the speed"
    reason = "even at rest" if slowdown.at_rest else "at any speed"
    return f"infeasible {reason}: {described(slowdown.limit)}"


def verdict(check: TrajectoryCheck, payloads=()) -> list[str]:
    """The result in a few lines, as `write_check` has them."""
    span, word = check.time[-1] - check.time[0], "feasible" if check.feasible else "infeasible"
    apart = 1e3 * np.diff(check.time).max(initial=0.0)
    times = f"checked at {len(check.time)} times at most {apart:.3g} ms apart"
    lines = [f"{word}: {len(check.trajectory)} points of {span:.4g} s, {times}"]
    if check.worst is not None:
        lines.append(f"most used limit, {100 * check.worst.used:.1f} %: {described(check.worst)}")
    if not check.feasible:
        lines.append(remedy(check))
    return lines + [f"largest payload of {link}: {mass:.4g} kg" for link, mass in payloads]


def _blocks(check, payloads, figures):
    """Blocks of Markdown."""
    first, *others = verdict(check, payloads)
    yield f"# {text(check.robot.name)}: check of a trajectory"
    yield bold(first)
    yield bullet_list([*others, *check.notes])
    yield "## Limits"
    yield _margins(check)
    yield "## Loads"
    total = f"{check.peak_total_power:.4g} W, energy {check.energy.sum():.4g} J"
    yield f"Efforts in N m or N; largest power of all joints together {total}."
    yield _loads(check)
    yield "## Curves"
    yield "Over time in s; limits in orange, without those of positions."
    yield from _curves(check, figures)


def _margins(check):
    head = ("joint", "quantity", "time, s", "value", "limit", "margin", "used, %")
    rows = [
        (one.joint, one.quantity, one.time, one.value, one.limit, one.margin, 100 * one.used)
        for one in check.margins
    ]
    return table(head, rows) if rows else "The robot has no limits."


def _loads(check):
    head = (
        "joint",
        "peak",
        "RMS",
        f"RMS over {check.options.thermal_window:g} s",
        "peak power, W",
        "energy, J",
    )
    columns = (check.peak_effort, check.rms_effort, check.thermal_effort, check.peak_power, check.energy)
    return table(head, zip(check.robot.v_names, *(column.tolist() for column in columns), strict=True))


def _curves(check, figures):
    every = -(-len(check.time) // MOST_DRAWN)
    limits = {(margin.joint, margin.quantity): abs(margin.limit) for margin in check.margins}
    efforts = joint_limits(check.robot, check.options.limits).effort.ranges(check.qd)
    for curve in check.curves():
        curves = [(_CURVE, curve.values[::every])]
        if curve.kind == "torque":
            sides = [side[::every, check.robot.v_names.index(curve.name)] for side in efforts]
            curves += [(_LIMIT, side) for side in sides if np.isfinite(side).all()]
        elif curve.kind != "position" and (limit := limits.get((curve.name, curve.kind))) is not None:
            curves += [(_LIMIT, np.full(len(check.time[::every]), side * limit)) for side in (-1, 1)]
        yield f"### {curve.kind} of {text(curve.name)}"
        yield figures.add(panel(check.time[::every], curves, curve.unit, 110))
