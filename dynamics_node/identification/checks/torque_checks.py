"""Checks of the torques of a recording: signs, units, exchanged columns, a load that comes and goes."""

from itertools import combinations

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.checks.fit import Columns, Fit, columns_of
from dynamics_node.identification.checks.plausible import (
    WEIGHTLESS,
    about_gravity,
    about_signs_and_sizes,
    alike,
    listed,
    turned,
)
from dynamics_node.identification.checks.together import (
    APART,
    CLOSE,
    cross_validated,
    factors,
    fitted,
    left_by_each_other,
)
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import Sums

PER_BODY = 10  # parameters
SHIFTED = 4  # of these: mass, and mass times its place
HEAVY = 0.1  # kg
WORTH = 0.1  # of squared residuals that a load has to explain: of good recordings it explains 0.03


def about_load(linear: RegressorModel, fit: Fit, stretches, rows):
    """Sentences. fit: of rows {kind: (n, ...)}, those of all stretches."""
    tree = linear.robot.tree
    tips = np.setdiff1d(np.arange(tree.nbodies), [body.parent for body in tree.bodies])
    starts = np.cumsum([len(own["qd"]) for own in stretches])[:-1]
    Y = linear.inertial(*(rows[kind] for kind in ("q", "qd", "qdd")))
    best, found = WORTH, None
    for tip in tips[-1:]:
        columns = Y[..., PER_BODY * tip : PER_BODY * tip + SHIFTED]
        for number, start in enumerate(starts, 1):
            later = np.where(np.arange(len(columns))[:, None, None] < start, 0.0, columns)
            change, _, share = fit.explained_by(later)
            if share > best and abs(change[0]) > HEAVY:
                best, found = share, (tree.bodies[tip].name, change[0], stretches[number])
    if found is None:
        return []
    name, mass, stretch = found
    when = f" after about {stretch['time'][0]:.3g} s" if "time" in stretch else " later on"
    kind = "more" if mass > 0 else "less"
    return [f"{name} carries about {abs(mass):.2g} kg {kind}{when}: does a gripper take or leave something?"]


JOINTS = 8  # at most, of which any two are exchanged on trial
ROWS = 400  # for that
TOLD = 2.0  # times what is left of a torque alone, from which on it is told without a reason
BY_HEART = 5.0  # times as much left of unseen torques, from which on a fit has learnt its rows by heart
NOISY = 4.0  # times what is left of a torque alone, to which noise in its motion may lead
FEW = 800  # rows for that, of torques alone
CLEARLY = 0.85  # of what a torque's own joint leaves, that the other leaves of it
EXCHANGED = 0.5  # of what is left too much, when the right columns are found


def about_torques(linear: RegressorModel, base: BaseParameters, sums: Sums, rows):
    """Sentences about recordings, with their sums, and a sample of rows {kind: (n, ...)}."""
    names, (S, count) = linear.robot.v_names, sums.total()
    found = alike(linear, rows)
    if told := about_gravity(linear, rows, found):
        return told
    if told := _torques_of_each_other(linear, base, rows):
        return told
    state = fitted(S, count)
    if state.worst > APART:
        needed, then = factors(S, count, found.needed)
        if then.worst <= CLOSE:
            return _about_factors(needed, names)
        if otherwise := _read_otherwise(linear, base, rows):
            return otherwise
    told = about_gravity(linear, rows, found, sure=False) or about_signs_and_sizes(found, names)
    return told or _about_the_rest(state, cross_validated(sums) / state.own, names)


def _torques_of_each_other(linear, base, rows):
    """Sentences: two torques, each of which fits the other's joint better, whatever the bodies."""
    rows = {kind: own[:: 1 + len(own) // FEW] for kind, own in rows.items()}
    W = base.reduced(linear.matrix(*(rows[kind] for kind in ("q", "qd", "qdd"))))
    own = np.flatnonzero(linear.counts)[:JOINTS]
    left = left_by_each_other(W, rows["tau"], own)
    for a, b in combinations(own.tolist(), 2):
        better = left[a, b] / left[b, b], left[b, a] / left[a, a]
        if max(better) < CLEARLY and better[0] * better[1] < EXCHANGED:
            names = linear.robot.v_names
            return [f"the torques of {names[a]} and {names[b]} seem to be exchanged"]
    return []


def _about_factors(needed, names):
    """Sentences: what torques must be multiplied with."""
    found = []
    for k in np.flatnonzero(needed != 1.0):
        if abs(needed[k] + 1.0) < 0.2:
            found.append(f"the torque of {names[k]} has the other sign than those of the other joints")
        else:
            why = "amperes, or before a gear?" if abs(needed[k]) > 1.0 else "other units?"
            told = f"the torque of {names[k]} is {1.0 / needed[k]:.2g} of what the other joints' need"
            found.append(f"{told}: {why}")
    return found


def _read_otherwise(linear, base, rows):
    """Sentences: columns of two joints that fit better the other way round, or another gravity."""
    rows = {kind: own[:: 1 + len(own) // ROWS] for kind, own in rows.items()}
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    W, tau = linear.matrix(q, qd, qdd), rows["tau"] - linear.known(q, qd, qdd)
    as_is = columns_of(base.reduced(W))
    limit = EXCHANGED * _too_much(as_is, tau)
    readings = []
    if "inertia" in linear.terms:
        readings = [*_exchanged(linear, base, rows, as_is, tau), *_fallen(linear, base, rows, W, tau)]
    return [told for left, told in sorted(readings)[:1] if left < limit]


def _too_much(columns: Columns, tau):
    """How much too much a fit of all torques leaves: see `Together`."""
    size = columns.parameters + 1
    S = np.zeros((len(columns.own), size, size))
    for one, own, felt, torque in zip(S, columns.own, columns.felt, tau.T, strict=True):
        both = np.column_stack([own, torque])
        one[np.ix_(places := np.append(felt, columns.parameters), places)] = both.T @ both
    return fitted(S, np.full(len(S), float(len(tau)))).too_much


def _exchanged(linear, base, rows, as_is, tau):
    """(How much too much is left, a sentence) of any two joints whose torques or columns are exchanged."""
    tree, names = linear.robot.tree, linear.robot.v_names
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    places = {k: joints[name].q.start for k, name in enumerate(names) if name in joints and linear.counts[k]}
    known = rows["tau"] - tau
    for a, b in combinations(list(places)[:JOINTS], 2):
        torques = _with_exchanged(rows["tau"], a, b)
        told = f"of {names[a]} and {names[b]} seem to be exchanged"
        yield _too_much(as_is, torques - known), f"the torques {told}"
        q = _with_exchanged(rows["q"], places[a], places[b])
        qd, qdd = (_with_exchanged(rows[kind], a, b) for kind in ("qd", "qdd"))
        columns = columns_of(base.reduced(linear.matrix(q, qd, qdd)))
        yield _too_much(columns, torques - linear.known(q, qd, qdd)), f"the columns {told}"


def _with_exchanged(rows, a, b):
    """Rows (n, ...) whose columns a and b have changed places."""
    rows = rows.copy()
    rows[:, [a, b]] = rows[:, [b, a]]
    return rows


def _fallen(linear, base, rows, W, tau):
    """(How much too much is left, a sentence) of other directions of gravity, and of none."""
    size = np.linalg.norm(linear.robot.gravity)
    readings = {WEIGHTLESS: np.zeros(3)}
    readings |= {turned(size * axis): size * axis for axis in (*np.eye(3), *-np.eye(3))}
    for told, gravity in readings.items():
        W[..., linear.places("inertia")] = linear.inertial(
            *(rows[kind] for kind in ("q", "qd", "qdd")), gravity
        )
        yield _too_much(columns_of(base.reduced(W)), tau), told


def _about_the_rest(state, unseen, names):
    """Sentences: torques that fit worse together than alone, for another reason. unseen (nv,): what their own
    fits leave of unseen torques, of what they leave of seen ones: such that learn by heart say nothing."""
    apart = np.where(unseen <= BY_HEART, state.apart, 0.0)
    worst = float(apart.max(initial=0.0))
    if worst <= TOLD:
        return []
    which = listed(np.array(names)[apart > APART])
    told = f"torques of {which} fit bodies that all joints share {worst:.2g} times worse than others"
    if worst < NOISY:
        return [f"{told}: noisy velocities (try a lower cut-off), friction that grows with the load, drift?"]
    return [f"{told}: exchanged columns, positions in other units, another robot?"]
