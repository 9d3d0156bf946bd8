"""Shortest stops of loaded arms and closed loops against Pinocchio.

The stop keeps the limits at dense samples, and of 25 shorter ones none does. Bisection on the deceleration
finds the shortest stop next to it.
"""

from typing import NamedTuple

import numpy as np
from robots import ROBOTS, robot_of, text_of
from stop_oracle import LOOPS, TIP, arm_state, loaded_arm, loop_limits, loop_state, stops_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError

LEAST, LONGEST = 1e-3, 10.0  # s
SHORTER, TIMES, HALVINGS = 0.994, 25, 12  # share of the time; shorter stops; of the interval of decelerations
KEPT = 1.002  # used fraction between samples of the search
LATER = 1.006  # the stop, in terms of the time that bisection finds
ARMS = 5  # of so many draws and one more, so many are of arms


class Case(NamedTuple):
    """A robot of the tests, and its state; smooth: without jumps of accelerations."""

    name: str
    robot: str
    q: np.ndarray
    qd: np.ndarray
    smooth: bool

    @property
    def text(self):
        return ROBOTS[self.robot].file.read_text() if self.robot in ROBOTS else text_of(self.robot)


def draw(random: np.random.Generator) -> Case:
    """A state of an arm with a payload, or of a closed loop."""
    if random.integers(ARMS + 1) == 0:
        name = str(random.choice([*LOOPS]))
        return Case(f"stop of {name}", name, *loop_state(name, random), False)
    name = str(random.choice([*TIP]))
    smooth = bool(random.integers(2))
    state = arm_state(robot_of(name), random)
    return Case(f"{'smooth ' if smooth else ''}stop of {name} with a payload", name, *state, smooth)


def check(case: Case) -> str:
    """'ok', or 'refused: ', 'FALSELY REFUSED: ' or 'SILENT ERROR: ' with the reason."""
    truth, more = stops_of(case.robot), {"smooth": True} if case.smooth else {}

    def used(time):
        return truth.used(case.q, case.qd, time, **more)

    try:
        stop = _stop(case)
    except InfeasibleError as error:
        least = min((used(time), time) for time in np.geomspace(LEAST, LONGEST, 2 * TIMES))
        words = f"stop of {least[1]:.4g} s uses {least[0]:.4g} of the limits: {error}"
        return f"refused: {words}" if least[0] > 1 else f"FALSELY REFUSED: {words}"
    if (most := used(stop.time)) > KEPT:
        return f"SILENT ERROR: the stop of {stop.time:.4g} s uses {most:.4g} of the limits"
    if stop.time <= 1.01 * LEAST:
        return "ok"
    shorter = [time for time in np.geomspace(LEAST, SHORTER * stop.time, TIMES) if used(time) <= 1]
    bisected = _bisected(used, shorter[0] if shorter else stop.time)
    if stop.time > LATER * bisected:
        return f"SILENT ERROR: stop of {stop.time:.4g} s, one of {bisected:.4g} s keeps the limits"
    return "ok"


def _stop(case):
    """The stop of the library."""
    if case.robot in LOOPS:
        limits = loop_limits(case.robot)
        return dn.stopping_trajectory(robot_of(case.robot), case.q, case.qd, limits=limits, backend="numpy")
    robot = loaded_arm(case.robot)
    qdd = np.zeros(robot.nv) if case.smooth else None
    return dn.stopping_trajectory(robot, case.q, case.qd, qdd=qdd, backend="numpy")


def _bisected(used, time):
    """The shortest stop by bisection on the deceleration, next to one of a time."""
    low, high = 1 / time, 1.05 / time  # decelerations of a unit speed
    if used(1 / high) <= 1:
        return 1 / high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if used(1 / middle) <= 1 else (low, middle)
    return 1 / low
