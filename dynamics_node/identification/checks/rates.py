"""Whether positions, rates and times of a recording belong to each other."""

import numpy as np

from dynamics_node.identification.checks.plausible import listed
from dynamics_node.identification.linear import LinearModel

SLOW = 0.5  # s between samples: nobody records so
UNITS = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
DEGREES = np.degrees(1.0)
BEYOND = 3.0  # times the largest position that the description allows
TURNS = 4 * np.pi  # of joints without limits
APART = 10  # rows over which positions and rates are held against each other
ALIKE = 0.9  # correlation of both, below which they have nothing to do with each other
SAME = 0.8, 1.25  # slopes that are none


def about_positions(linear: LinearModel, rows):
    """Sentences: angles in degrees."""
    tree, far, moving = linear.robot.tree, [], 0
    for joint in tree.independent_joints:
        if joint.kind == "prismatic" or not joint.type.is_scalar:
            continue
        q = rows["q"][:, joint.q.start]
        bound = max(abs(joint.limits.lower), abs(joint.limits.upper))
        moving += np.ptp(q) > 0
        far += [joint.name] * bool(np.abs(q).max() > BEYOND * (bound if np.isfinite(bound) else TURNS))
    if far and 2 * len(far) >= moving:
        return [f"positions of {listed(far)} are far beyond their limits: degrees?"]
    return []


def about_rates(linear: LinearModel, stretches):
    """Sentences: rates that are not those of the positions."""
    usual = [np.median(np.diff(own["time"])) for own in stretches if "time" in own and len(own["time"]) > 1]
    if not usual:
        return []
    if np.median(usual) > SLOW:
        scale = min(UNITS, key=lambda s: abs(np.log10(np.median(usual) * s / 0.005)))
        return [f"samples are {np.median(usual):.3g} s apart: are times {UNITS[scale]}?"]
    slopes = _slopes(linear, stretches)
    odd = {name: slope for name, slope in slopes.items() if slope is None or not SAME[0] < slope < SAME[1]}
    factors = [slope for slope in odd.values() if slope]
    if len(factors) > 1 and len(odd) == len(slopes) and np.ptp(factors) < 0.2 * abs(np.mean(factors)):
        return [_of_all(float(np.mean(factors)))]
    if len(odd) > 1 and not factors and len(odd) == len(slopes):
        return ["velocities have little to do with positions"]
    return [
        f"velocities of {name} have little to do with its positions"
        if slope is None
        else f"positions of {name} change {slope:.3g} times as fast as its velocities say"
        for name, slope in odd.items()
    ]


def _of_all(factor):
    told = f"positions change {factor:.3g} times as fast as velocities say"
    if abs(np.log(factor / DEGREES)) < 0.3:
        return f"{told}: are positions in degrees?"
    if abs(np.log(factor * DEGREES)) < 0.3:
        return f"{told}: are velocities in degrees?"
    unit = next((name for scale, name in UNITS.items() if abs(np.log(factor / scale)) < 0.5), None)
    return f"{told}: are times {unit}?" if unit else f"{told}: other units?"


def _slopes(linear, stretches):
    """{joint: how much faster its positions change than its rates say, None where both are unlike}."""
    tree = linear.robot.tree
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    found = {}
    for k, name in enumerate(linear.robot.v_names):
        if name not in joints:
            continue
        moved, said = [], []
        for own in stretches:
            if "time" not in own or len(own["time"]) <= APART:
                continue
            rates = own["qd"][:, k]
            way = np.append(0.0, np.cumsum(0.5 * (rates[1:] + rates[:-1]) * np.diff(own["time"])))
            q = np.unwrap(own["q"][:, joints[name].q.start]) if joints[name].kind == "continuous" else None
            q = own["q"][:, joints[name].q.start] if q is None else q
            moved.append(q[APART:] - q[:-APART])
            said.append(way[APART:] - way[:-APART])
        if not moved:
            continue
        a, b = np.concatenate(moved), np.concatenate(said)
        size = np.sqrt((a @ a) * (b @ b))
        if np.abs(a).max() > 1e-3 and size > 0:
            found[name] = float(a @ b / (b @ b)) if abs(a @ b) > ALIKE * size else None
    return found
