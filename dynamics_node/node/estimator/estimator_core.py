"""The estimator without ROS: readings in as plain values, estimates or a reason for NoOutput out.

Readings wait for the step of their time (Grid, Waiting); Running is one estimate under way, which
EstimatorCore starts anew after gaps and changes.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import ClosureError
from dynamics_node.node.core.torques import JointFriction, joint_friction
from dynamics_node.node.errors import LEAVE_OUT, NO_STATES, BadMessage, NoOutput
from dynamics_node.node.estimator.estimator_settings import MEASURED, NONE, EstimatedRobot, EstimatorSettings
from dynamics_node.node.state.coordinates import Coordinates, coordinates_of
from dynamics_node.node.state.joint_memory import JUMP_BACK, NEVER, JointMemory
from dynamics_node.node.state.sensor_readings import SensorMessage, own_numbers
from dynamics_node.robot import Robot
from dynamics_node.text import listed, one_line
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.gate import ENCODER, FAR, TORQUE, Gate
from dynamics_node.trajectory.joint_smoother import FIRST, JointEstimate, JointSmoother

MOST_WAITING = 10_000  # readings that are ahead of the joint states


class Grid(NamedTuple):
    """Steps of `period` ns; the first is at `origin`, ns of ROS time."""

    origin: int
    period: int

    def step(self, stamp: int) -> int:
        """The step that is nearest to a time."""
        return (stamp - self.origin + self.period // 2) // self.period

    def time(self, step: int) -> int:
        """ns of ROS time."""
        return self.origin + step * self.period


class Reading(NamedTuple):
    """values (rows,), NaN where there is none, of a sensor as JointSmoother.read names it; stamp: ns."""

    stamp: int
    sensor: str
    values: np.ndarray


class Waiting:
    """Readings that have been heard and belong to no step yet. late: readings by sensor that came into their
    steps after these had been solved; outside: those that came too late for that; rejected: those that were
    so unlikely that they did not count."""

    def __init__(self):
        self.late: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self._readings: deque[Reading] = deque(maxlen=MOST_WAITING)

    def add(self, reading: Reading):
        self._readings.append(reading)

    def until(self, stamp: int) -> list[Reading]:
        """Those up to a time; they wait no more."""
        due = [r for r in self._readings if r.stamp <= stamp]
        self._readings = deque((r for r in self._readings if r.stamp > stamp), maxlen=MOST_WAITING)
        return due

    def forget(self):
        """What waits; counts stay."""
        self._readings.clear()


LONGEST_GAP = 200_000_000  # ns between joint states that are still bridged


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
        friction: JointFriction,
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
        return self.grid.step(reading.stamp), reading.sensor != ENCODER, reading.stamp

    def use(self, reading: Reading):
        """A reading to the step that is nearest; those of encoders make the steps up to it. Raises Gap and
        TrajectoryError."""
        smoother, waiting, step = self.smoother, self._waiting, self.grid.step(reading.stamp)
        if reading.sensor == ENCODER:
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
            self.gate.read(step, TORQUE, self._driving(command.values, step))

    def _carried(self, reading, step):
        """What a sensor says at the time of the step, and the variance that this adds. Positions go on from
        the stamp with the velocities and accelerations that are known there, and are those of the turn in
        which a continuous joint is; torques are those of the motors less friction; of others a step lasts too
        short to matter."""
        if reading.sensor == TORQUE:
            return self._driving(reading.values, step), 0.0
        if reading.sensor != ENCODER:
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


MOST_COMMANDS = 1000  # of the motors, of which a step looks for that which was in force


class EstimatorCore:
    """One robot that is estimated. last: what was told last; notes: lines for the log, to be taken away;
    restarts: how often the estimate began anew."""

    def __init__(self, robot: EstimatedRobot, settings: EstimatorSettings):
        self.waiting = Waiting()
        self.notes: list[str] = []
        self.restarts = 0
        self._received: dict[str, int] = {}  # steady ns by sensor
        self.replace(robot, settings)

    def replace(self, robot: EstimatedRobot, settings: EstimatorSettings):
        """Go on with another robot, from the start."""
        self.robot = self.unloaded = robot
        self.topics = robot.topics
        self.coordinates = coordinates_of(robot, explicit=False)
        followers = [joint.name for joint in robot.model.explicit_joints]
        self.joints = JointMemory(self.coordinates.joints, self.coordinates.own, followers)
        self.apply(settings)

    def serves(self, model: Robot) -> bool:
        """Whether what is known of the present robot is true of another: never."""
        return False

    @property
    def model(self) -> Robot:
        return self.robot.model

    @property
    def summary(self) -> str:
        """What is served, for the log."""
        sensors = [sensor.name for sensor in self.robot.smoothed.sensors]
        return (
            f"{one_line(self.model.name)}: {len(self.joints.names)} joints estimated at "
            f"{self.settings.rate:g} Hz over {self.settings.steps} steps"
            + (f", with {one_line(listed(sensors))}" if sensors else "")
        )

    def apply(self, settings: EstimatorSettings):
        """Take over settings; the estimate begins anew."""
        self.settings = settings
        self._options = settings.options()
        self._friction = joint_friction(self.model, settings)
        self._timeout = int(settings.sensor_timeout * 1e9)
        number = {name: k for k, name in enumerate(self.joints.names)}
        self._command_order = np.array([number[name] for name in settings.command_joints], dtype=int)
        self.forget()

    def forget(self, reason=""):
        """Begin anew with the next joint states. reason: why, if that is news."""
        if reason:
            self.restarts += 1
            self.notes.append(f"the estimate begins anew: {one_line(reason)}")
        self._running: Running | None = None
        self._doubts: set[str] = set()
        self._commands: deque[Reading] = deque(maxlen=MOST_COMMANDS)
        self.last: Told | None = None
        self.waiting.forget()
        self.joints.reset()

    # --- what is heard -----------------------------------------------------------------------------------

    def hear_states(self, names, position, velocity, effort, stamp: int, received: int):
        """Joint states. Raises BadMessage, and then nothing has changed."""
        layout, newest = self.joints.layout(names), self.joints.newest
        if newest and stamp < newest - JUMP_BACK:
            self.forget("the stamps of joint states jumped back")
        self.joints.update(names, position, velocity, effort, stamp, received)
        if not layout.target.size:
            return
        self._take(ENCODER, stamp, received, self._of_joints(layout, position))
        if self.settings.torque_source == MEASURED and len(effort):
            self._take(TORQUE, stamp, received, self._of_joints(layout, effort))

    def hear_sensor(self, topic: str, message: SensorMessage):
        """A message of the sensors of a topic; its stamp: ns. Raises BadMessage: not finite, or of another
        frame."""
        for name, own in [(s.name, own_numbers(s, message)) for s in self.topics[topic].sensors]:
            self._take(name, message.stamp, message.received, own)

    def hear_command(self, names, efforts, stamp: int, received: int):
        """Torques that the motors are told, by joint, from `stamp` on. Raises BadMessage."""
        if len(efforts) != len(names):
            raise BadMessage(f"{len(names)} names but {len(efforts)} entries in effort")
        self._commanded(self._of_joints(self.joints.layout(names), efforts), stamp, received)

    def hear_numbers(self, efforts, stamp: int, received: int):
        """The same in the order of command_joints."""
        if len(efforts) != len(self._command_order):
            raise BadMessage(f"{len(efforts)} numbers for {len(self._command_order)} command_joints")
        found = np.full(len(self.joints.names), np.nan)
        found[self._command_order] = efforts
        self._commanded(found, stamp, received)

    def _commanded(self, torques, stamp, received):
        self._commands.append(Reading(stamp, TORQUE, torques))
        self._received[TORQUE] = received

    def _of_joints(self, layout, values):
        """(joints,), NaN where nothing is told."""
        found = np.full(len(self.joints.names), np.nan)
        found[layout.target] = np.asarray(values, dtype=float)[layout.source]
        return found

    def _take(self, sensor, stamp, received, values):
        self._received[sensor] = received
        self.waiting.add(Reading(stamp, sensor, values))

    # --- what becomes of it -----------------------------------------------------------------------------

    def advance(self, steady_now: int) -> Told | None:
        """Use what was heard up to the newest joint states; None if nothing new can be told of that. Raises
        NoOutput."""
        self.require_fresh(steady_now)
        try:
            return self._advanced()
        except (Gap, TrajectoryError) as error:
            self.forget(str(error))
            return None

    def _advanced(self):
        newest = self.joints.newest
        if self._running is None:
            self._running = self._started(newest)
        running, settings = self._running, self.settings
        due = self.waiting.until(newest + running.grid.period // 2)
        for reading in sorted(due, key=running.turn):
            running.use(reading)
        solved = running.solve()
        self._note_doubts()
        if solved and (told := running.told(settings.steps_of_lag)) is not None:
            self.last = told
            return told
        return None

    def _note_doubts(self):
        """A line where a sensor is rejected, and where it is believed again."""
        before, self._doubts = self._doubts, set(self.doubted())
        if new := sorted(self._doubts - before):
            names = one_line(listed(map(self.name_of, new)))
            self.notes.append(f"readings of {names} are rejected: those of encoders contradict them")
        if over := sorted(before - self._doubts):
            self.notes.append(f"readings of {one_line(listed(map(self.name_of, over)))} count again")

    def _started(self, newest):
        """From the positions of all joints. Raises NoOutput where loops cannot be closed."""
        at = self.coordinates
        try:
            q = at.close(at.position(self.joints.position))
        except ClosureError as error:
            raise NoOutput(str(error)) from None
        smoother = JointSmoother(self.robot.smoothed, self._options, q)
        self.waiting.until(newest - 1)  # what was before the first step
        grid = Grid(newest, round(1e9 / self.settings.rate))
        return Running(smoother, grid, at, self._friction, self._commands, self._timeout, self.waiting)

    # --- what is missing --------------------------------------------------------------------------------

    def require_fresh(self, steady_now: int):
        """Raise NoOutput when joint states are incomplete, or too old by now for anything to be told."""
        joints, timeout = self.joints, self.settings.joint_state_timeout
        if missing := joints.missing():
            raise NoOutput(
                f"never seen: {listed(missing)}", remedy=NO_STATES if joints.untold() else LEAVE_OUT
            )
        if stale := joints.stale(steady_now, int(timeout * 1e9)):
            raise NoOutput(f"joint states older than {timeout:g} s: {listed(stale)}", True)

    def doubted(self) -> list[str]:
        """Sensors whose last readings were rejected because encoders contradict them, sorted."""
        return [] if self._running is None else sorted(self._running.gate.doubted)

    @staticmethod
    def name_of(sensor: str) -> str:
        """What reports call a sensor: the topic of encoders, torques, or its own name."""
        return {ENCODER: "joint_states", TORQUE: "torques"}.get(sensor, sensor)

    def silent_sensors(self, steady_now: int) -> dict[str, str]:
        """{sensor: 'never' or its age}, of those that have not been heard within sensor_timeout."""
        names = {sensor.name: sensor.name for sensor in self.robot.smoothed.sensors}
        if self.settings.torque_source != NONE:
            names[TORQUE] = f"{self.settings.torque_source} torques"
        found = {}
        for key, name in names.items():
            heard = self._received.get(key, NEVER)
            if heard == NEVER:
                found[name] = "never"
            elif steady_now - heard > self._timeout:
                found[name] = f"{(steady_now - heard) * 1e-9:.1f} s"
        return found
