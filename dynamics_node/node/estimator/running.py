"""An estimate under way: readings to their steps in time, and what is known of a step. Without ROS."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.node.core.no_output import NoOutput
from dynamics_node.node.core.torques import JointTorques
from dynamics_node.node.estimator.readings import Grid, Reading, Waiting
from dynamics_node.node.state.coordinates import Coordinates
from dynamics_node.text import listed
from dynamics_node.trajectory.gate import ENCODER, FAR, TORQUE, Gate
from dynamics_node.trajectory.joint_smoother import FIRST, JointEstimate, JointSmoother

LONGEST_GAP = 200_000_000  # ns between joint states that are still bridged
ENCODERS, TORQUES = ENCODER, TORQUE


class Gap(Exception):
    """Nothing was heard for so long that the estimate has to begin anew; the text says for how long."""


class Told(NamedTuple):
    """estimate of the step at `stamp`, ns; lag, s: how much later readings count in it."""

    estimate: JointEstimate
    stamp: int
    lag: float


class Running:
    """smoother, its grid, and how readings become those of steps. friction: what joints take by
    themselves; commands: torques that the motors are told, as they come; commands_last: ns for which one of
    them is in force; waiting: readings whose step is not there yet, and how many did not count."""

    def __init__(
        self,
        smoother: JointSmoother,
        grid: Grid,
        coordinates: Coordinates,
        friction: JointTorques,
        commands: Sequence[Reading],
        commands_last: int,
        waiting: Waiting,
    ):
        self.smoother, self.grid = smoother, grid
        self.gate, self._waiting = Gate(smoother, waiting.rejected), waiting
        self._at, self._friction = coordinates, friction
        self._commands, self._commands_last = commands, commands_last
        self._continuous = np.array([joint.type.wraps for joint in coordinates.joints], dtype=bool)
        self._solved = -1  # the newest step of the last solution

    def turn(self, reading: Reading) -> tuple:
        """Readings are used in the order of this: by step, encoders, which make it, first."""
        return self.grid.step(reading.stamp), reading.sensor != ENCODERS, reading.stamp

    def use(self, reading: Reading):
        """A reading to the step that is nearest; those of encoders make the steps up to it. Raises Gap and
        TrajectoryError."""
        smoother, waiting, step = self.smoother, self._waiting, self.grid.step(reading.stamp)
        if reading.sensor == ENCODERS:
            self._step_to(step)
        if step > smoother.newest:  # ahead of the joint states: their next one makes its step
            waiting.add(reading)
        elif step < smoother.oldest:
            waiting.outside[reading.sensor] += 1
        else:
            if step < self._solved:
                waiting.late[reading.sensor] += 1
            values, variance = self._carried(reading, step)
            self.gate.read(step, reading.sensor, values, variance)

    def solve(self) -> bool:
        """Whether there is a step more than at the last solution; what came into older steps since counts
        from then on. Raises TrajectoryError."""
        if self.smoother.newest == self._solved:
            return False
        self.smoother.solve()
        self._solved = self.smoother.newest
        return True

    def told(self, lag: int) -> Told | None:
        """Of the step that is `lag` steps older than the newest; None where it is one of the first, or a
        position that was read there may still count. Raises NoOutput where the estimate contradicts one."""
        step = self.smoother.newest - lag
        if step < FIRST or self.gate.undecided(step):
            return None
        if (joint := self.gate.contradicted(step)) is not None:
            doubted = f" or one of {listed(sorted(self.gate.doubted))}" if self.gate.doubted else ""
            raise NoOutput(
                f"the estimate is more than {FAR:g} standard deviations from the position of "
                f"{self._at.joints[joint].name!r}; its encoder{doubted} is wrong, or noise.encoder too small"
            )
        return Told(self.smoother.estimate(step), self.grid.time(step), lag * self.grid.period * 1e-9)

    def _step_to(self, step):
        smoother = self.smoother
        missing = (step - smoother.newest) * self.grid.period
        if smoother.newest >= 0 and missing > LONGEST_GAP:
            raise Gap(
                f"joint states {missing * 1e-9:.3g} s apart; {LONGEST_GAP * 1e-9:g} s are bridged at most"
            )
        while smoother.newest < step:
            if smoother.newest - self._solved > smoother.options.window - 2:
                self.solve()  # before a step is forgotten that was never solved
            smoother.step()
            self._hold_command()

    def _hold_command(self):
        """What the motors were told last before the step."""
        step = self.smoother.newest
        now = self.grid.time(step)
        command = next((command for command in reversed(self._commands) if command.stamp <= now), None)
        if command is not None and now - command.stamp <= self._commands_last:
            self.gate.read(step, TORQUES, self._driving(command.values, step))

    def _carried(self, reading, step):
        """What a sensor says at the time of the step, and the variance that this adds. Positions go on from
        the stamp with the velocities and accelerations that are known there, and are those of the turn in
        which a continuous joint is; torques are those of the motors less friction; of others a step lasts too
        short to matter."""
        if reading.sensor == TORQUES:
            return self._driving(reading.values, step), 0.0
        if reading.sensor != ENCODERS:
            return reading.values, 0.0
        early = (self.grid.time(step) - reading.stamp) * 1e-9
        of_qd, of_qdd = self.smoother.rates(step)
        of_jerk = self.smoother.options.jerk_density * abs(early) ** 5 / 20
        q, qd, qdd = self.smoother.at(step)
        values = reading.values + early * (qd - 0.5 * early * qdd)[self._at.v_at]
        turns = np.round((values - q[self._at.q_at]) / (2 * np.pi))
        values = values - np.where(self._continuous, 2 * np.pi * turns, 0.0)
        return values, early**2 * of_qd + 0.25 * early**4 * of_qdd + of_jerk

    def _driving(self, torques, step):
        """Torques (independent joints,) less what the joints take."""
        if not self._friction.any:
            return torques[self._at.own]
        q, qd, _ = self.smoother.at(step)
        friction = self._at.gather(q, self._friction(q, qd))
        return torques[self._at.own] - friction[self._at.own_v]
