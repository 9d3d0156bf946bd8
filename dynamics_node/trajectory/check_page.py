"""Write a TrajectoryCheck as one self-contained HTML page: text and SVG, no scripts."""

from html import escape
from pathlib import Path

import numpy as np

from dynamics_node.io import bullet_list, document, panel, table, written
from dynamics_node.trajectory.motion_limits import described
from dynamics_node.trajectory.trajectory_check import TrajectoryCheck

MOST_DRAWN = 4000  # samples of a curve
_STYLE = """
th, td { padding: .2rem .9rem .2rem 0; text-align: left; } .bad { color: #b3261e; } .good { color: #1b6e3c; }
table { display: block; overflow-x: auto; } figure { padding: .6rem .8rem; }
"""
_CURVE, _LIMIT = "#2f6fb5", "#c4572b"


def write_check(check: TrajectoryCheck, path, payloads=()) -> Path:
    """Write the page to a path and return it; missing folders are created. All names of the robot are
    escaped. payloads: (link, mass) of the largest payloads."""
    robot = check.robot
    parts = (
        f"<h1>{escape(robot.name)}</h1>",
        _verdict(check, payloads),
        f"<h2>Limits</h2>{_margins(check)}",
        f"<h2>Loads</h2>{_loads(check)}",
        "<h2>Curves</h2><p class=quiet>Over time in s; limits in orange, without those of positions.</p>",
        *_figures(check),
    )
    return written(document(f"{robot.name}: check of a trajectory", _STYLE, parts), path)


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


def _verdict(check, payloads):
    first, *others = verdict(check, payloads)
    mark = "good" if check.feasible else "bad"
    return f"<p class={mark}>{escape(first)}</p>{bullet_list([*others, *check.notes])}"


def _margins(check):
    head = ("joint", "quantity", "time, s", "value", "limit", "margin", "used, %")
    rows = [
        (own.joint, own.quantity, own.time, own.value, own.limit, own.margin, 100 * own.used)
        for own in check.margins
    ]
    return table(head, rows) if rows else "<p>The robot has no limits.</p>"


def _loads(check):
    head = ("joint", "peak", "RMS", f"RMS over {check.window:g} s", "peak power, W", "energy, J")
    columns = (check.peak_effort, check.rms_effort, check.thermal_effort, check.peak_power, check.energy)
    rows = zip(check.robot.v_names, *(column.tolist() for column in columns), strict=True)
    total = f"{check.peak_total_power:.4g} W, energy {check.energy.sum():.4g} J"
    return f"<p>Efforts in N m or N; largest power of all joints together {total}.</p>{table(head, rows)}"


def _figures(check):
    every = -(-len(check.time) // MOST_DRAWN)
    limits = {(own.joint, own.quantity): abs(own.limit) for own in check.margins}
    for curve in check.curves():
        curves = [(_CURVE, curve.values[::every])]
        quantity = {"torque": "effort"}.get(curve.kind, curve.kind)
        if curve.kind != "position" and (limit := limits.get((curve.name, quantity))) is not None:
            curves += [(_LIMIT, np.full(len(check.time[::every]), side * limit)) for side in (-1, 1)]
        title = f"{curve.kind} of {curve.name}"
        picture = panel(check.time[::every], curves, curve.unit, 110)
        yield f"<figure><figcaption><h3>{escape(title)}</h3></figcaption>{picture}</figure>"
