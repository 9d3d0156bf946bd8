"""Readings of a recording -> data and weights of Steps."""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms import ClosureError, first_closed
from dynamics_node.functions import InputError
from dynamics_node.trajectory.errors import InconsistentStart
from dynamics_node.trajectory.graph import Steps, weights_of
from dynamics_node.trajectory.joint_smoother import FIRST, Smoothed


def recorded_steps(smoothed: Smoothed, time, readings, options) -> Steps:
    """All data and weights. Raises InputError."""
    if time.ndim != 1 or len(time) < FIRST or not (np.diff(time) > 0).all() or not np.isfinite(time).all():
        raise InputError(f"time must be {FIRST} or more finite, rising numbers")
    unknown = set(readings) - {"q", "tau", *smoothed.deviations}
    if unknown:
        raise InputError(
            f"readings of {sorted(unknown)[0]!r}: there are q, tau, {', '.join(smoothed.deviations)}"
        )
    steps = smoothed.graph.steps(len(time))
    spans = np.diff(time, append=2 * time[-1] - time[-2])
    steps["dt"][:, 0] = spans
    for k, span in enumerate(spans):
        for name, variance in replace(options, period=span).variances().items():
            steps[weights_of(name)][k] = 1.0 / variance
    nv = len(smoothed.independent)
    _read(steps, "encoder", "reading encoder", _positions(smoothed, readings.get("q")), options.encoder_std)
    torques = readings.get("tau", np.full((len(time), nv), np.nan))
    _read(steps, "torque", "reading torque", torques, options.torque_std)
    for name, std in smoothed.deviations.items():
        _read(steps, name, f"reading {name}", readings.get(name, np.full((1, len(std)), np.nan)), std)
    return steps


def _read(steps, factor, data, values, std):
    """Write the readings of a factor; what is not finite has no weight."""
    values, shape = np.array(values, dtype=float), steps[data].shape
    if values.ndim != 2 or values.shape[1] != shape[1] or len(values) not in (1, shape[0]):
        raise InputError(f"readings of {factor!r} must be {shape}, not {values.shape}")
    told = np.isfinite(values)
    steps[data][:] = np.where(told, values, 0.0)
    steps[weights_of(factor)][:] = np.where(told, 1.0 / np.square(std), 0.0)


def _positions(smoothed: Smoothed, q):
    """(count, joints with a position): NaN of dependent joints that are not there; angles without jumps."""
    system, count = smoothed.system, len(smoothed.scalars)
    if q is None:
        return np.full((1, count), np.nan)
    q = np.array(q, dtype=float)
    if q.ndim == 2 and q.shape[1] == len(system.independent) < count:
        whole = np.full((len(q), count), np.nan)
        whole[:, [smoothed.scalars.index(k) for k in system.independent]] = q
        q = whole
    if q.ndim != 2 or q.shape[1] != count:
        raise InputError(f"q must be (count, {count}) or (count, {len(system.independent)}), not {q.shape}")
    joints = smoothed.robot.tree.independent_joints
    for k in (k for k, joint in enumerate(joints) if joint.type.wraps):
        told = np.isfinite(q[:, k])
        q[told, k] = np.unwrap(q[told, k])
    return q


def first_position(robot, smoothed: Smoothed, steps, start):
    """Where the first readings have the joints (nq,), closed."""
    read, told = steps["reading encoder"], steps[weights_of("encoder")] > 0
    first = np.array(smoothed.system.q.neutral if start is None else start, dtype=float)
    for k, direction in enumerate(smoothed.scalars):
        rows = np.flatnonzero(told[:, k])
        if len(rows):
            first[smoothed.system.scalars[direction]] = read[rows[0], k]
    try:
        return first_closed(robot, first)
    except ClosureError as error:
        raise InconsistentStart(f"{robot.name}: the first readings do not close: {error}") from None
