"""What is wrong with the torques of a recording, said by name before anything is fitted to them."""

from itertools import combinations

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.plausible import about_gravity, about_signs_and_sizes, alike, listed
from dynamics_node.identification.together import APART, CLOSE, factors, fitted
from dynamics_node.loops.mechanism import tree_of

JOINTS = 8  # at most, of which any two are exchanged on trial
ROWS = 400  # for that
EXCHANGED = 0.5  # of what is left too much, when the right columns are found


def about_torques(linear: LinearModel, base: BaseParameters, S, count, rows):
    """Sentences about recordings, with S and count of their `Sums`, and a sample of rows {kind: (n, ...)}."""
    names = linear.robot.v_names
    found = alike(linear, rows)
    if turned := about_gravity(linear, rows, found):
        return turned
    state = fitted(S, count)
    if state.worst <= APART:
        return about_signs_and_sizes(found, names)
    needed, then = factors(S, count, found.needed)
    if then.worst <= CLOSE:
        return _about_factors(needed, names)
    exchanged = _about_exchange(linear, base, rows)
    return exchanged or about_signs_and_sizes(found, names) + _about_the_rest(state, names)


def _squares(linear: LinearModel, base: BaseParameters, rows):
    """Sums of squares (nv, r + 1, r + 1) of the regressor and the torque of every joint, and counts (nv,)."""
    states = [rows[kind] for kind in ("q", "qd", "qdd")]
    W, tau = base.reduced(linear.matrix(*states)), rows["tau"] - linear.known(*states)
    both = np.swapaxes(np.concatenate([W, tau[..., None]], axis=-1), 0, 1)
    return np.swapaxes(both, 1, 2) @ both, np.full(len(both), float(len(tau)))


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


def _about_exchange(linear, base, rows):
    """Sentences: columns of two joints that fit better the other way round."""
    tree = tree_of(linear.robot)
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    places = {k: joints[name].q.start for k, name in enumerate(linear.robot.v_names) if name in joints}
    rows = {kind: own[:: 1 + len(own) // ROWS] for kind, own in rows.items()}
    best, told = EXCHANGED * fitted(*_squares(linear, base, rows)).too_much, None
    for a, b in combinations(list(places)[:JOINTS], 2):
        for what, kinds in (("torques", ("tau",)), ("columns", ("q", "qd", "qdd", "tau"))):
            swapped = dict(rows)
            for kind in kinds:
                i, j = (places[a], places[b]) if kind == "q" else (a, b)
                swapped[kind] = rows[kind].copy()
                swapped[kind][:, [i, j]] = rows[kind][:, [j, i]]
            left = fitted(*_squares(linear, base, swapped)).too_much
            if left < best:
                best, told = left, (what, a, b)
    if told is None:
        return []
    names = linear.robot.v_names
    return [f"the {told[0]} of {names[told[1]]} and {names[told[2]]} seem to be exchanged"]


def _about_the_rest(state, names):
    apart = np.array(names)[state.apart > APART]
    told = f"torques of {listed(apart)} fit no parameters that the other joints could share"
    return [f"{told}: exchanged columns, positions in other units, another robot?"]
