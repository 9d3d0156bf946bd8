"""Checks of recorded torques: signs, units, exchanged columns, a load that changes during the recording."""

from itertools import combinations

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.checks.fit import Columns, Fit, columns_of
from dynamics_node.identification.checks.plausible import (
    WEIGHTLESS,
    about_gravity,
    about_signs_and_sizes,
    compare_torques,
    listed,
    turned,
)
from dynamics_node.identification.checks.together import (
    CONSISTENT,
    MISFIT,
    cross_validated,
    factors,
    fitted,
    left_by_each_other,
)
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import Sums

PER_BODY = 10  # parameters per body
SHIFTED = 4  # of these: mass and first moments
HEAVY = 0.1  # kg
WORTH = 0.1  # fraction of squared residuals: least share that a load must explain; 0.03 in good recordings


def about_load(linear: RegressorModel, fit: Fit, stretches, rows):
    """Warnings about a changing load. fit: of rows {kind: (n, ...)}, those of all stretches."""
    tree = linear.robot.tree
    tips = np.setdiff1d(np.arange(tree.nbodies), [body.parent for body in tree.bodies])
    starts = np.cumsum([len(own["qd"]) for own in stretches])[:-1]
    Y = linear.inertial(*(rows[kind] for kind in ("q", "qd", "qdd")))
    best, load = WORTH, None
    for tip in tips[-1:]:
        columns = Y[..., PER_BODY * tip : PER_BODY * tip + SHIFTED]
        for number, start in enumerate(starts, 1):
            later = np.where(np.arange(len(columns))[:, None, None] < start, 0.0, columns)
            change, _, share = fit.explained_by(later)
            if share > best and abs(change[0]) > HEAVY:
                best, load = share, (tree.bodies[tip].name, change[0], stretches[number])
    if load is None:
        return []
    name, mass, stretch = load
    when = f" after about {stretch['time'][0]:.3g} s" if "time" in stretch else " later on"
    kind = "more" if mass > 0 else "less"
    return [
        f"the load of {name} is about {abs(mass):.2g} kg {kind}{when}: "
        "does a gripper pick or place something?"
    ]


JOINTS = 8  # at most: all pairs are tried
ROWS = 400  # rows for these trials
REPORTED = 2.0  # times the residual of a torque alone: above it, a misfit is reported without a cause
OVERFITTED = 5.0  # ratio of unseen to seen residuals: above it, a fit is overfitted
NOISY = 4.0  # times the residual of a torque alone: noisy velocities can cause less
FEW = 800  # rows for trials with torques alone
LEAST_GAIN = 0.85  # fraction of the residual of the own joint: the other joint's must be smaller
EXCHANGED = 0.5  # fraction of the excess residual: the right columns reduce it below this


def about_torques(linear: RegressorModel, base: BaseParameters, sums: Sums, rows, late=False):
    """Warnings about recordings, from their sums and a sample of rows {kind: (n, ...)}. late: a delay alone
    explains why torques do not fit common bodies; exchanged torques can look like one."""
    if late:
        return _torques_of_each_other(linear, base, rows)
    names, (S, count) = linear.robot.v_names, sums.total()
    comparison = compare_torques(linear, rows)
    if warnings := about_gravity(linear, rows, comparison):
        return warnings
    if warnings := _torques_of_each_other(linear, base, rows):
        return warnings
    state = fitted(S, count)
    if state.worst > MISFIT:
        needed, corrected = factors(S, count, comparison.needed)
        if corrected.worst <= CONSISTENT:
            return _about_factors(needed, names)
        if warnings := _read_otherwise(linear, base, rows):
            return warnings
    warnings = about_gravity(linear, rows, comparison, sure=False) or about_signs_and_sizes(comparison, names)
    return warnings or _about_the_rest(state, cross_validated(sums) / state.own, names)


def _torques_of_each_other(linear, base, rows):
    """Warnings about two torques, each of which fits the other's joint better, independent of the bodies.
    Rotors dominate the torques of many wrists, even if they are no term."""
    rows = {kind: own[:: 1 + len(own) // FEW] for kind, own in rows.items()}
    states = [rows[kind] for kind in ("q", "qd", "qdd")]
    W = np.concatenate([base.reduced(linear.matrix(*states)), linear.joint_blocks(*states)["rotor"]], axis=-1)
    own = np.flatnonzero(linear.counts)[:JOINTS]
    left = left_by_each_other(W, rows["tau"], own)
    for a, b in combinations(own.tolist(), 2):
        better = left[a, b] / left[b, b], left[b, a] / left[a, a]
        if max(better) < LEAST_GAIN and better[0] * better[1] < EXCHANGED:
            names = linear.robot.v_names
            return [f"the torques of {names[a]} and {names[b]} seem to be exchanged"]
    return []


def _about_factors(needed, names):
    """Warnings about the factors that the torques need."""
    warnings = []
    for k in np.flatnonzero(needed != 1.0):
        if abs(needed[k] + 1.0) < 0.2:
            warnings.append(f"the torque of {names[k]} has the opposite sign of the other joints' torques")
        else:
            cause = "amperes, or on the motor side?" if abs(needed[k]) > 1.0 else "other units?"
            message = (
                f"the torque of {names[k]} is {1.0 / needed[k]:.2g} times what the other joints' require"
            )
            warnings.append(f"{message}: {cause}")
    return warnings


def _read_otherwise(linear, base, rows):
    """Warnings about two exchanged columns or another gravity that fit better."""
    rows = {kind: own[:: 1 + len(own) // ROWS] for kind, own in rows.items()}
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    W, tau = linear.matrix(q, qd, qdd), rows["tau"] - linear.known(q, qd, qdd)
    as_is = columns_of(base.reduced(W))
    limit = EXCHANGED * _too_much(as_is, tau)
    readings = []
    if "inertia" in linear.terms:
        readings = [*_exchanged(linear, base, rows, as_is, tau), *_fallen(linear, base, rows, W, tau)]
    return [message for left, message in sorted(readings)[:1] if left < limit]


def _too_much(columns: Columns, tau):
    """Excess residual of a fit of all torques: see `TorqueFit`."""
    size = columns.parameters + 1
    S = np.zeros((len(columns.own), size, size))
    for one, own, indices, torque in zip(S, columns.own, columns.indices, tau.T, strict=True):
        both = np.column_stack([own, torque])
        one[np.ix_(places := np.append(indices, columns.parameters), places)] = both.T @ both
    return fitted(S, np.full(len(S), float(len(tau)))).too_much


def _exchanged(linear, base, rows, as_is, tau):
    """(Excess residual, warning) for any two joints with exchanged torques or columns."""
    tree, names = linear.robot.tree, linear.robot.v_names
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    places = {k: joints[name].q.start for k, name in enumerate(names) if name in joints and linear.counts[k]}
    known = rows["tau"] - tau
    for a, b in combinations(list(places)[:JOINTS], 2):
        torques = _with_exchanged(rows["tau"], a, b)
        exchanged = f"of {names[a]} and {names[b]} seem to be exchanged"
        yield _too_much(as_is, torques - known), f"the torques {exchanged}"
        q = _with_exchanged(rows["q"], places[a], places[b])
        qd, qdd = (_with_exchanged(rows[kind], a, b) for kind in ("qd", "qdd"))
        columns = columns_of(base.reduced(linear.matrix(q, qd, qdd)))
        yield _too_much(columns, torques - linear.known(q, qd, qdd)), f"the columns {exchanged}"


def _with_exchanged(rows, a, b):
    """Rows (n, ...) with columns a and b exchanged."""
    rows = rows.copy()
    rows[:, [a, b]] = rows[:, [b, a]]
    return rows


def _fallen(linear, base, rows, W, tau):
    """(Excess residual, warning) for other directions of gravity, and for none."""
    size = np.linalg.norm(linear.robot.gravity)
    readings = {WEIGHTLESS: np.zeros(3)}
    readings |= {turned(size * axis): size * axis for axis in (*np.eye(3), *-np.eye(3))}
    for message, gravity in readings.items():
        W[..., linear.places("inertia")] = linear.inertial(
            *(rows[kind] for kind in ("q", "qd", "qdd")), gravity
        )
        yield _too_much(columns_of(base.reduced(W)), tau), message


def _about_the_rest(state, unseen, names):
    """Warnings about torques that fit worse together than alone for another reason. unseen (nv,): ratio of
    unseen to seen residuals of their own fits; overfitted ones are ignored."""
    apart = np.where(unseen <= OVERFITTED, state.apart, 0.0)
    worst = float(apart.max(initial=0.0))
    if worst <= REPORTED:
        return []
    which = listed(np.array(names)[apart > MISFIT])
    message = f"torques of {which} fit common bodies {worst:.2g} times worse than alone"
    if worst < NOISY:
        return [
            f"{message}: noisy velocities (try a lower cut-off), friction that grows with the load, drift?"
        ]
    return [f"{message}: exchanged columns, positions in other units, another robot?"]
