"""Checks of recorded torques: signs, units, exchanged columns, gravity, a load that changes in between.

All torques follow from one set of parameters. The torque of each joint is fitted with its own parameters, and
all torques are fitted together: for consistent torques, both residuals are about equal. If they are not, the
same fits are tried on the recording as it should be if two columns were exchanged, gravity had another
direction, or torques had the factors that the description suggests.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.checks.torque_comparison import (
    about_signs_and_sizes,
    compare_torques,
)
from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import Sums, fit_of, folds, residuals, squares_of, torque_rows
from dynamics_node.text import listed

PER_BODY = 10  # parameters per body
SHIFTED = 4  # of these: mass and first moments
HEAVY = 0.1  # kg
ROUNDING = 1e-12  # fraction of the squared torques: smaller residuals are rounding errors
WORTH = 0.1  # fraction of squared residuals: least share that a load must explain; 0.03 in good recordings


def about_load(linear: RegressorModel, base: BaseParameters, stretches):
    """Warnings about a changing load, from stretches {kind: (n, ...)} of a recording."""
    tree = linear.robot.tree
    tip = np.setdiff1d(np.arange(tree.nbodies), [body.parent for body in tree.bodies])[-1]
    parts = []
    for stretch in stretches:
        moving = linear.inertial(*(stretch[kind] for kind in ("q", "qd", "qdd")))
        load = moving[..., PER_BODY * tip : PER_BODY * tip + SHIFTED]
        parts.append(squares_of(np.concatenate([load, torque_rows(linear, base, stretch)], axis=-1)))
    S = sum(parts)
    _, spread = fit_of(S[:, SHIFTED:, SHIFTED:], sum(len(stretch["qd"]) for stretch in stretches))
    weighted = np.einsum("j,sjkl->skl", 1.0 / spread**2, np.array(parts))
    total, added = weighted.sum(axis=0), np.arange(SHIFTED)
    others, kept = np.arange(SHIFTED, len(total) - 1), np.append(added, len(total) - 1)
    inverse, size = covariance_of(total[np.ix_(others, others)]), total[-1, -1]
    best, found = WORTH, None
    for number in range(1, len(stretches)):  # the first one with the load
        later = weighted[number:].sum(axis=0)
        total[added], total[:, added] = later[added], later[:, added]
        across = total[np.ix_(others, kept)]
        left = total[np.ix_(kept, kept)] - across.T @ inverse @ across
        change = covariance_of(left[:-1, :-1]) @ left[:-1, -1]
        share = change @ left[:-1, -1] / max(left[-1, -1], ROUNDING * size, 1e-300)
        if share > best and abs(change[0]) > HEAVY:
            best, found = share, (float(change[0]), stretches[number])
    if found is None:
        return []
    mass, stretch = found
    when = f" after about {stretch['time'][0]:.3g} s" if "time" in stretch else " later on"
    kind = "more" if mass > 0 else "less"
    return [
        f"the load of {tree.bodies[tip].name} is about {abs(mass):.2g} kg {kind}{when}: "
        "does a gripper pick or place something?"
    ]


# --- consistency of all torques -----------------------------------------------------------------------------

JOINTS = 8  # at most: all pairs are tried
ROWS = 400  # rows for trials
FEW = 800  # rows for trials with torques alone
MISFIT = 1.5  # times the residual of a torque alone: above it, the torque does not fit the others
REPORTED = 2.5  # likewise: above it, a misfit is reported without a cause
NOISY = 4.0  # likewise: noisy velocities can cause less
OVERFITTED = 3.0  # ratio of unseen to seen residuals: above it, a fit is overfitted
LEAST_GAIN = 0.85  # fraction of the residual of the own joint: the other joint's must be smaller
EXCHANGED = 0.5  # likewise: the product for both joints
READ = 0.65  # fraction of the excess residual: the right reading reduces it below this


class TorqueFit(NamedTuple):
    """Per torque (nv,): root mean square residuals of the joint fit of all, and of its own fit."""

    all: np.ndarray
    alone: np.ndarray

    @property
    def apart(self):
        """Ratio (nv,) of the residuals of the fit of all to those of its own fit."""
        return self.all / self.alone

    @property
    def excess(self):
        """Excess residual: sum of the logarithms of `apart`."""
        return float(np.log(self.apart).sum())


def about_torques(linear: RegressorModel, base: BaseParameters, sums: Sums, rows, late=False):
    """Warnings about recordings, from their sums and a sample of rows {kind: (n, ...)}. late: a delay alone
    explains why torques do not fit common bodies; exchanged torques can look like one."""
    warnings = _torques_of_each_other(linear, base, rows)
    if late or warnings:
        return warnings
    names, state = linear.robot.v_names, fitted(*sums.total())
    comparison = compare_torques(linear, rows)
    about_factors = about_signs_and_sizes(comparison, names)
    if state.apart.max(initial=0.0) > MISFIT and "inertia" in linear.terms:
        warnings = _read_otherwise(linear, base, rows, comparison, about_factors)
    return warnings or about_factors or _about_the_rest(state, _unseen(sums) / state.alone, names)


def fitted(S, count) -> TorqueFit:
    """Fits of sums of squares S (nv, r + 1, r + 1) over count (nv,) rows; torques are weighted by their own
    fit."""
    alone = np.array([_alone(one, rows) for one, rows in zip(S, count, strict=True)])
    total = np.einsum("j,jkl->kl", 1.0 / alone**2, S)
    x = covariance_of(total[:-1, :-1]) @ total[:-1, -1]
    return TorqueFit(np.maximum(residuals(S, count, x), alone), alone)


def _alone(S, count):
    """Root mean square residual of one torque fitted alone."""
    nonzero = np.diagonal(S) > 0
    nonzero[-1] = True
    S = S[np.ix_(nonzero, nonzero)]
    x = covariance_of(S[:-1, :-1]) @ S[:-1, -1]
    least = 1e-6 * np.sqrt(S[-1, -1] / max(1.0, count)) + 1e-12
    freedom = np.sqrt(count / max(1.0, count - len(x)))  # corrects for the fitted degrees of freedom
    return max(freedom * float(residuals(S[None], np.array([count]), x)[0]), least)


def _unseen(sums: Sums):
    """Root mean squares (nv,) of residuals of each torque's own fit on unseen stretches. The training
    residuals of few or redundant rows are too small."""
    squares = np.zeros(len(sums.products))
    for test, train in folds():
        for joint, products in enumerate(sums.products):
            S, rest = products[test].sum(axis=0), products[train].sum(axis=0)
            z = np.append(covariance_of(rest[:-1, :-1]) @ rest[:-1, -1], -1.0)
            squares[joint] += max(float(z @ S @ z), 0.0)
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def _torques_of_each_other(linear, base, rows):
    """Warnings about two torques, each of which fits the other's joint better, independent of the bodies.
    Rotors dominate the torques of many wrists, even if they are no term."""
    rows = {kind: array[:: 1 + len(array) // FEW] for kind, array in rows.items()}
    states = [rows[kind] for kind in ("q", "qd", "qdd")]
    W = np.concatenate([base.reduced(linear.matrix(*states)), linear.joint_blocks(*states)["rotor"]], axis=-1)
    joints = np.flatnonzero(linear.counts)[:JOINTS]
    left = {}  # [a]: root mean squares (nv,) of all torques, fitted by the columns of joint a
    for joint in joints.tolist():
        columns, tau = W[:, joint, W[:, joint].any(axis=0)], rows["tau"]
        rest = tau - columns @ (covariance_of(columns.T @ columns) @ (columns.T @ tau))
        left[joint] = np.sqrt(np.mean(rest**2, axis=0)) + 1e-12
    for a, b in combinations(left, 2):
        better = left[a][b] / left[b][b], left[b][a] / left[a][a]
        if max(better) < LEAST_GAIN and better[0] * better[1] < EXCHANGED:
            names = linear.robot.v_names
            return [f"the torques of {names[a]} and {names[b]} seem to be exchanged"]
    return []


def _read_otherwise(linear, base, rows, comparison, about_factors):
    """Warnings of the reading of the recording that fits best, if it fits much better."""
    rows = {kind: array[:: 1 + len(array) // ROWS] for kind, array in rows.items()}
    as_is = torque_rows(linear, base, rows)
    readings = [
        *_exchanged(linear, base, rows),
        *_fallen(linear, rows, as_is),
        *((excess, about_factors) for excess in _scaled(rows["tau"], as_is, comparison.needed)),
    ]
    excess, warnings = min(readings, key=lambda reading: reading[0])
    return warnings if excess < READ * _excess(as_is) else []


def _excess(rows):
    """Excess residual of rows (n, nv, r + 1)."""
    return _fitted_rows(rows)[0].excess


def _fitted_rows(rows):
    """TorqueFit of rows (n, nv, r + 1), and their sums of squares."""
    S = squares_of(rows)
    return fitted(S, np.full(len(S), float(len(rows)))), S


def _scaled(tau, rows, factors):
    """Excess residuals of torques tau (n, nv) times these factors (nv,), and times factors that are unknown
    like the parameters: the description's are imprecise."""
    rows = rows.copy()
    rows[..., -1] += tau * (factors - 1.0)
    fit, S = _fitted_rows(rows)
    yield fit.excess
    for joint in np.flatnonzero(factors != 1.0):
        weights = 1.0 / fit.alone**2
        A, mine = np.einsum("j,jkl->kl", weights, S), weights[joint] * S[joint]
        right = np.append((A - mine)[:-1, -1], 0.0)
        A[-1, -1], A[-1, :-1], A[:-1, -1] = mine[-1, -1], -mine[-1, :-1], -mine[:-1, -1]
        rows[:, joint, -1] *= (covariance_of(A) @ right)[-1]
        fit, S = _fitted_rows(rows)
    yield fit.excess


def _exchanged(linear, base, rows):
    """(Excess residual, warnings) for any two joints with exchanged torques or columns."""
    tree, names = linear.robot.tree, linear.robot.v_names
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    places = {k: joints[name].q.start for k, name in enumerate(names) if name in joints and linear.counts[k]}
    for a, b in combinations(list(places)[:JOINTS], 2):
        exchanged = f"of {names[a]} and {names[b]} seem to be exchanged"
        torques = rows | {"tau": _with_exchanged(rows["tau"], a, b)}
        yield _excess(torque_rows(linear, base, torques)), [f"the torques {exchanged}"]
        columns = torques | {kind: _with_exchanged(rows[kind], a, b) for kind in ("qd", "qdd")}
        columns["q"] = _with_exchanged(rows["q"], places[a], places[b])
        yield _excess(torque_rows(linear, base, columns)), [f"the columns {exchanged}"]


def _with_exchanged(rows, a, b):
    """Rows (n, ...) with columns a and b exchanged."""
    rows = rows.copy()
    rows[:, [a, b]] = rows[:, [b, a]]
    return rows


def _fallen(linear, rows, as_is):
    """(Excess residual, warnings) for other directions of gravity, and for none. Base parameters depend on
    the direction: all columns are used."""
    size, states = np.linalg.norm(linear.robot.gravity), [rows[kind] for kind in ("q", "qd", "qdd")]
    W = linear.matrix(*states)
    for gravity in size * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)]):
        W[..., linear.places("inertia")] = linear.inertial(*states, gravity)
        direction = ", ".join(f"{value + 0.0:.1f}" for value in gravity)
        message = f"torques fit a gravity of ({direction}) in root axes: is the robot mounted that way"
        message += ", or are the signs reversed?"
        if not gravity.any():
            message = "torques contain no gravity: are they gravity-compensated, or external torques?"
        yield _excess(np.concatenate([W, as_is[..., -1:]], axis=-1)), [message]


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
