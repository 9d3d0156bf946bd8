"""Whether a robot carries more from some time on: what a change of the last body's mass would explain."""

import numpy as np

from dynamics_node.identification.checks.fit import Fit
from dynamics_node.identification.linear import LinearModel

PER_BODY = 10  # parameters
SHIFTED = 4  # of these: mass, and mass times its place
HEAVY = 0.1  # kg
WORTH = 0.1  # of squared residuals that a load has to explain: of good recordings it explains 0.03


def about_load(linear: LinearModel, fit: Fit, stretches, rows):
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
