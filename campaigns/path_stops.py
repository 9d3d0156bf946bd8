"""Stops of loaded arms on random paths, against the largest decelerations by Pinocchio back in time."""

from typing import NamedTuple

import numpy as np
from robots import ROBOTS
from stop_oracle import CENTER, braking_time, curve, loaded_arm, sampled, stops_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError

SAMPLES = 1001  # of a stop
KEPT = 1.002  # used fraction between the points of a stop
FASTER, SLOWER = 0.99, 1.03  # of the shortest time
LEAST = 2e-3  # s: a stop ends 1 ms of the trajectory later, or more


class Case(NamedTuple):
    """An arm, a path as a spline, points of a trajectory along it, and when the stop begins."""

    robot: str
    path: object
    points: int
    begin: float

    @property
    def name(self):
        return f"stop of {self.robot} with a payload at {self.begin:.4g} of {self.path.x[-1]:.4g} s"

    @property
    def text(self):
        return ROBOTS[self.robot].file.read_text()


def draw(random: np.random.Generator) -> Case:
    """A smooth path from rest to rest."""
    name, reach, seconds = str(random.choice([*CENTER])), random.uniform(0.1, 0.35), random.uniform(1, 3)
    path = curve(CENTER[name], reach, seconds, int(random.integers(2**31)))
    return Case(name, path, int(random.integers(20, 200)), random.uniform(0.05, 0.9) * seconds)


def check(case: Case) -> str:
    """'ok', or 'refused: ', 'FALSELY REFUSED: ' or 'SILENT ERROR: ' with the reason."""
    robot = loaded_arm(case.robot)
    try:
        shortest = braking_time(case.robot, case.path, case.begin)[0]
    except ValueError:
        shortest = None
    try:
        stop = dn.stop_on_path(
            robot, sampled(robot.v_names, case.path, case.points), case.begin, backend="numpy"
        )
    except InfeasibleError as error:
        word = "refused" if shortest is None else "FALSELY REFUSED"
        return f"{word}: {error}"
    states = stop.trajectory.at(np.linspace(0, stop.time, SAMPLES))[1:4]
    tau = np.array([stops_of(case.robot).tau(*state) for state in zip(*states, strict=True)])
    if (most := np.abs(tau / robot.effort_limits).max()) > KEPT:
        return f"SILENT ERROR: the stop of {stop.time:.4g} s uses {most:.4g} of the limits of effort"
    if shortest is not None and not FASTER * shortest <= stop.time <= SLOWER * max(shortest, LEAST):
        return f"SILENT ERROR: stop of {stop.time:.4g} s, the shortest one takes {shortest:.4g} s"
    return "ok" if shortest is not None else "refused: no shortest stop by integration"
