"""What a robot did, from what was read: a whole recording, by the model of `joint_smoother`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.robot.sensors import Sensor
from dynamics_node.trajectory.batch import Batch
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graph import CHANGE, DAMPING, LINKED, Steps
from dynamics_node.trajectory.joint_smoother import (
    FIRST,
    TOLERANCE,
    VARIABLES,
    Smoothed,
    SmootherOptions,
    known_start,
)
from dynamics_node.trajectory.problems import told_at, trajectory_of
from dynamics_node.trajectory.recorded import first_position, recorded_steps
from dynamics_node.trajectory.results import Trajectory

AHEAD = 10  # steps of the window that finds where the search for all at once begins
SETTLED = 1e-9  # of the last change of a variable, beside its size, of a whole recording


def smooth(
    robot: Robot,
    time,
    readings: Mapping[str, np.ndarray],
    sensors: Iterable[Sensor] = (),
    *,
    options: SmootherOptions | None = None,
    window: int | None = None,
    start=None,
    backend="auto",
    progress=None,
) -> Trajectory:
    """The most likely motion of a recording, with standard deviations and covariances, and
    `external_torque` (nv,), of the environment at the independent joints.

    time (count,), s, rising. readings: {'q': (count, nq), or of the independent joints alone, (count, nv);
    'tau': (count, nv), of the motors as commanded or measured, may be missing: then nothing determines
    external torques; NAME of a sensor: (count, its rows)}; NaN where nothing was read. sensors: Imu, Gyro,
    Accelerometer.
    options: the noise, see SmootherOptions, whose period is not used: steps are as long as `time` has it.
    window: steps of a fixed lag, after which an estimate stays as it is, as a node would have it; None: all
    readings tell about all steps. start (nq,): a position near the first one, if the first reading does not
    say how loops are assembled. progress: told after every step.

    Raises InputError, SensorError, and TrajectoryError with the Trajectory so far as its `solution`.
    """
    options = options or SmootherOptions()
    smoothed = _smoothed(robot, tuple(sensors), backend)
    steps = recorded_steps(smoothed, np.array(time, dtype=float), readings, options)
    first = first_position(robot, smoothed, steps, start)
    run = _Run(smoothed, steps, known_start(smoothed.graph, options, first), "tau" in readings)
    try:
        run.along(window or AHEAD, window is not None, progress or (lambda done: None))
        if window is None:
            run.at_once()
    except TrajectoryError as error:
        motion = run.motion(time)
        place = f"{robot.name}, {len(motion)} of {len(steps)} steps done"
        raise told_at(error, place, motion) from None
    return run.motion(time)


@lru_cache(maxsize=8)  # of the robots at hand
def _smoothed(robot, sensors, backend):
    return Smoothed(robot, sensors, backend)


# --- the search ---------------------------------------------------------------------------------------------


class _Run:
    """Steps as they are found. done: how many; P: covariances of all columns of these."""

    def __init__(self, smoothed: Smoothed, steps: Steps, known, with_torques):
        self.smoothed, self.steps, self.known, self.with_torques = smoothed, steps, known, with_torques
        self.done = 0
        self.iterations: Any = np.zeros(len(steps), dtype=int)
        columns = len(smoothed.graph.column_names)
        self.P = np.full((len(steps), columns, columns), np.nan)

    def along(self, window, wanted, progress):
        """Step after step. wanted: covariances, too."""
        graph, rows = self.smoothed.graph, self.steps.rows
        lag = FixedLag(graph, window, self.known, self.smoothed.backend, tolerance=TOLERANCE)
        written = {*(variable.name for variable in graph.variables), CHANGE, LINKED, DAMPING}
        told = [name for name in graph.row if name not in written]
        for k in range(len(self.steps)):
            lag.extend(**{name: self.steps[name][k] for name in told})
            if k + 1 >= FIRST:
                self.iterations[k] = lag.solve()
                part = slice(k + 1 - len(lag), k + 1)
                rows[part] = lag.steps.rows[: len(lag)]
                if wanted:
                    self.P[part] = lag.covariance()
                self.done = k + 1
            progress(k + 1)

    def at_once(self):
        batch = Batch(self.smoothed.graph, self.smoothed.backend)
        solution = batch.solve(self.steps, self.known, tolerance=SETTLED)
        self.steps, self.iterations = solution.steps, solution.iterations
        self.P = batch.covariance(self.steps, self.known)

    def motion(self, time) -> Trajectory:
        system, graph = self.smoothed.system, self.smoothed.graph
        steps, P = Steps(graph, self.steps.rows[: self.done + 1]), self.P[: self.done]
        own = np.array(system.independent)
        places = {name: graph.columns[name].start + own for name in VARIABLES[:3]}
        places["external_torque"] = np.arange(*graph.columns["external_torque"].indices(P.shape[1])[:2])
        covariance = {name: P[:, at][:, :, at] for name, at in places.items()}
        std = {name: np.sqrt(np.diagonal(block, axis1=1, axis2=2)) for name, block in covariance.items()}
        std["q"] = np.sqrt(np.diagonal(P, axis1=1, axis2=2)[:, graph.columns["q"]])
        iterations = self.iterations[: self.done] if np.ndim(self.iterations) else self.iterations
        motion = trajectory_of(
            system, np.array(time), steps, iterations=iterations, std=std, covariance=covariance
        )
        if self.with_torques:
            return motion
        std = {k: v for k, v in motion.std.items() if k != "external_torque"}
        covariance = {k: v for k, v in motion.covariance.items() if k != "external_torque"}
        return replace(motion, external_torque=None, std=std, covariance=covariance)
