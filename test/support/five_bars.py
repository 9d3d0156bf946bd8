"""A five-bar at a regular position, and a four-bar at a singular one."""

import numpy as np
import pytest

from dynamics_demo.robots import UPRIGHT, five_bar, four_bar

pytest.importorskip("pinocchio", reason="the independent oracle: pip install pin")

from dynamics_demo.oracles import FiveBarOracle

FIVE_BAR = five_bar(UPRIGHT)
DRIVEN, PASSIVE = ["j1", "j2"], ["j3", "j4"]
ALL = [*DRIVEN, *PASSIVE]
Q = np.array([1.9, 1.2])  # of the driven joints
QD, QDD = np.array([0.3, -0.4]), np.array([0.5, 0.8])
SINGULAR = "a loop is at a singular position, or too near: pin"


def oracle() -> FiveBarOracle:
    return FiveBarOracle(FIVE_BAR)


def closed(driven, names=ALL):
    """Positions of the named joints, with the elbows outward."""
    theirs = oracle()
    return theirs.closed(driven)[[theirs.at[name] for name in names]]


def flat_four_bar():
    """URDF+ text of a parallelogram that is flat at zero, where its coupler can move either way."""
    text = four_bar().replace('xyz="0.7 0 0"', 'xyz="0.9 0 0"').replace('xyz="0.3 0 0"', 'xyz="0.1 0 0"')
    return text.replace('xyz="0.6 0 0"', 'xyz="0.1 0 0"').replace('xyz="0.8 0 0"', 'xyz="0.9 0 0"')
