"""The estimator without ROS: readings in as plain values; estimates, or NoOutput with the reason, out.

PendingReadings buffers readings until the step of their time on the TimeGrid exists. EstimatorCore restarts
its RunningEstimate after gaps and changes.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ClosureError, TrajectoryError
from dynamics_node.node.core.torques import JointFriction, joint_friction
from dynamics_node.node.errors import LEAVE_OUT, NO_STATES, BadMessage, NoOutput
from dynamics_node.node.estimator.estimator_settings import MEASURED, NONE, EstimatedRobot, EstimatorSettings
from dynamics_node.node.state.coordinates import JointCoordinates, coordinates_of
from dynamics_node.node.state.joint_memory import JUMP_BACK, NEVER, JointMemory, possible
from dynamics_node.node.state.sensor_readings import SensorMessage, numbers_of
from dynamics_node.robot import Robot
from dynamics_node.text import listed, one_line
from dynamics_node.trajectory.gate import ENCODER, FAR, TORQUE, Gate
from dynamics_node.trajectory.joint_smoother import FIRST, JointEstimate, JointSmoother

MOST_PENDING = 10_000  # readings ahead of the joint states


class TimeGrid(NamedTuple):
    """Time grid with steps of `period` ns; the first is at `origin`, ns of ROS time."""

    origin: int
    period: int

    def step(self, stamp: int) -> int:
        """The step nearest to a time."""
        return (stamp - self.origin + self.period // 2) // self.period

    def time(self, step: int) -> int:
        """ROS time of a step, ns."""
        return self.origin + step * self.period


class Reading(NamedTuple):
    """values (rows,) of a sensor, NaN if absent. sensor: its name in JointSmoother.read; stamp: ns."""

    stamp: int
    sensor: str
    values: np.ndarray


class PendingReadings:
    """Received readings whose step does not exist yet, with counts by sensor. late: readings of steps that
    were already solved; too_late: readings of steps outside the window; rejected: outliers."""

    def __init__(self):
        self.late: Counter[str] = Counter()
        self.too_late: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self._readings: deque[Reading] = deque(maxlen=MOST_PENDING)

    def add(self, reading: Reading):
        self._readings.append(reading)

    def pop_until(self, stamp: int) -> list[Reading]:
        """Remove and return the readings up to a time."""
        due = [r for r in self._readings if r.stamp <= stamp]
        self._readings = deque((r for r in self._readings if r.stamp > stamp), maxlen=MOST_PENDING)
        return due

    def forget(self):
        """Clear the readings; the counts stay."""
        self._readings.clear()


LONGEST_GAP = 200_000_000  # ns between joint states that one estimate covers


class Gap(Exception):
    """Joint states are too far apart, so the estimate restarts; the text has the gap."""


class StampedEstimate(NamedTuple):
    """The estimate of the step at `stamp`, ns. lag: s; the estimate uses readings up to this much later."""

    estimate: JointEstimate
    stamp: int
    lag: float


class RunningEstimate:
    """A smoother with its grid, and the assignment of readings to steps. friction: of the joints; commands:
    received motor commands; commands_last: validity of a command, ns."""

    def __init__(
        self,
        smoother: JointSmoother,
        grid: TimeGrid,
        coordinates: JointCoordinates,
        friction: JointFriction,
        commands: Sequence[Reading],
        commands_last: int,
        pending: PendingReadings,
    ):
        self.smoother, self.grid = smoother, grid
        self.gate, self._pending = Gate(smoother, pending.rejected), pending
        self._at, self._friction = coordinates, friction
        self._commands, self._commands_last = commands, commands_last
        self._continuous = np.array([joint.type.wraps for joint in coordinates.joints], dtype=bool)
        self._solved = -1  # the newest step of the last solution

    def order(self, reading: Reading) -> tuple:
        """Sort key of readings: by step, and encoders first, because they create the step."""
        return self.grid.step(reading.stamp), reading.sensor != ENCODER, reading.stamp

    def add_reading(self, reading: Reading):
        """Add a reading to the nearest step; encoder readings create the steps up to it. Raises Gap and
        TrajectoryError."""
        smoother, pending, step = self.smoother, self._pending, self.grid.step(reading.stamp)
        if reading.sensor == ENCODER:
            self._advance_to(step)
        if step > smoother.newest:  # ahead of the joint states, whose next message creates its step
            pending.add(reading)
        elif step < smoother.oldest:
            pending.too_late[reading.sensor] += 1
        else:
            if step < self._solved:
                pending.late[reading.sensor] += 1
            values, variance = self._at_step(reading, step)
            self.gate.read(step, reading.sensor, values, variance)

    def solve(self) -> bool:
        """Solve if there is a new step, with all readings of older steps received since. Returns whether it
        solved. Raises TrajectoryError."""
        if self.smoother.newest == self._solved:
            return False
        self.smoother.solve()
        self._solved = self.smoother.newest
        return True

    def delayed_estimate(self, lag: int) -> StampedEstimate | None:
        """The estimate `lag` steps behind the newest step. None for the first steps, and while a position of
        the step is undecided. Raises NoOutput if the estimate contradicts an encoder."""
        step = self.smoother.newest - lag
        if step < FIRST or self.gate.undecided(step):
            return None
        if (joint := self.gate.contradicted(step)) is not None:
            suspects = f" or one of {listed(sorted(self.gate.suspected))}" if self.gate.suspected else ""
            raise NoOutput(
                f"the estimate is more than {FAR:g} standard deviations from the position of "
                f"{self._at.joints[joint].name!r}; check its encoder{suspects}, or increase noise.encoder"
            )
        return StampedEstimate(
            self.smoother.estimate(step), self.grid.time(step), lag * self.grid.period * 1e-9
        )

    def _advance_to(self, step):
        smoother = self.smoother
        missing = (step - smoother.newest) * self.grid.period
        if smoother.newest >= 0 and missing > LONGEST_GAP:
            raise Gap(f"joint states are {missing * 1e-9:.3g} s apart; the limit is {LONGEST_GAP * 1e-9:g} s")
        while smoother.newest < step:
            if smoother.newest - self._solved > smoother.options.lag_steps - 2:
                self.solve()  # before an unsolved step leaves the window
            smoother.step()
            self._apply_command()

    def _apply_command(self):
        """Add the last motor command before the step, if it is still valid."""
        step = self.smoother.newest
        now = self.grid.time(step)
        command = next((command for command in reversed(self._commands) if command.stamp <= now), None)
        if command is not None and now - command.stamp <= self._commands_last:
            self.gate.read(step, TORQUE, self._motor_torques(command.values, step))

    def _at_step(self, reading, step):
        """A reading at the time of the step, and the additional variance. Positions are extrapolated from
        the stamp with the estimated rates, and continuous joints are unwrapped. Torques are reduced by
        friction. Other readings are used as they are: a step is short."""
        if reading.sensor == TORQUE:
            return self._motor_torques(reading.values, step), 0.0
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

    def _motor_torques(self, torques, step):
        """Torques (independent joints,) minus friction."""
        if not self._friction.any:
            return torques[self._at.independent]
        q, qd, _ = self.smoother.at(step)
        friction = self._at.gather(q, self._friction(q, qd))
        return torques[self._at.independent] - friction[self._at.independent_v]


MOST_COMMANDS = 1000  # motor commands in the buffer


class EstimatorCore:
    """The estimator of one robot. last: the last estimate; notes: lines for the log, which the node clears;
    restarts: their number."""

    def __init__(self, robot: EstimatedRobot, settings: EstimatorSettings):
        self.pending = PendingReadings()
        self.notes: list[str] = []
        self.restarts = 0
        self._received: dict[str, int] = {}  # steady ns by sensor
        self.replace(robot, settings)

    def replace(self, robot: EstimatedRobot, settings: EstimatorSettings):
        """Start with another robot."""
        self.robot = self.unloaded = robot
        self.topics = robot.topics
        self.coordinates = coordinates_of(robot, explicit=False)
        followers = [joint.name for joint in robot.model.explicit_joints]
        self.joints = JointMemory(self.coordinates.joints, self.coordinates.independent, followers)
        self.apply(settings)

    def serves(self, model: Robot) -> bool:
        """Whether the estimate remains valid for another robot: never."""
        return False

    @property
    def model(self) -> Robot:
        return self.robot.model

    @property
    def summary(self) -> str:
        """Robot, rate, window and sensors, for the log."""
        sensors = [sensor.name for sensor in self.robot.smoothed.sensors]
        return (
            f"{one_line(self.model.name)}: {len(self.joints.names)} joints estimated at "
            f"{self.settings.rate:g} Hz over {self.settings.steps} steps"
            + (f", with {one_line(listed(sensors))}" if sensors else "")
        )

    def apply(self, settings: EstimatorSettings):
        """Apply settings and restart the estimate."""
        self.settings = settings
        self._options = settings.options()
        self._friction = joint_friction(self.model, settings)
        self._timeout = int(settings.sensor_timeout * 1e9)
        number = {name: k for k, name in enumerate(self.joints.names)}
        self._command_order = np.array([number[name] for name in settings.command_joints], dtype=int)
        self.forget()

    def forget(self, reason=""):
        """Restart the estimate at the next joint states. reason: for the log, "" for none."""
        if reason:
            self.restarts += 1
            self.notes.append(f"the estimate restarts: {one_line(reason)}")
        self._running: RunningEstimate | None = None
        self._rejected: dict[str, str] = {}
        self._commands: deque[Reading] = deque(maxlen=MOST_COMMANDS)
        self.last: StampedEstimate | None = None
        self.pending.forget()
        self.joints.reset()

    # --- messages ----------------------------------------------------------------------------------------

    def receive_states(self, names, position, velocity, effort, stamp: int, received: int):
        """Add joint states. Raises BadMessage, and then nothing changes."""
        layout, newest = self.joints.layout(names), self.joints.newest
        if newest and stamp < newest - JUMP_BACK:
            self.forget("the stamps of joint states jumped back")
        self.joints.update(names, position, velocity, effort, stamp, received)
        if not layout.target.size:
            return
        self._add(ENCODER, stamp, received, self._by_joint(layout, position))
        if self.settings.torque_source == MEASURED and len(effort):
            self._add(TORQUE, stamp, received, self._by_joint(layout, effort))

    def receive_sensor(self, topic: str, message: SensorMessage):
        """Add a sensor message of a topic; its stamp: ns. Raises BadMessage if it is not finite or has
        another frame."""
        for name, values in [(s.name, numbers_of(s, message)) for s in self.topics[topic].sensors]:
            self._add(name, message.stamp, message.received, values)

    def receive_command(self, names, efforts, stamp: int, received: int):
        """Add commanded motor torques by joint, valid from `stamp`. Raises BadMessage."""
        if len(efforts) != len(names):
            raise BadMessage(f"{len(names)} names but {len(efforts)} entries in effort")
        self._add_command(self._by_joint(self.joints.layout(names), efforts), stamp, received)

    def receive_ordered_command(self, efforts, stamp: int, received: int):
        """Add commanded motor torques in the order of command_joints. Raises BadMessage."""
        if len(efforts) != len(self._command_order):
            raise BadMessage(f"{len(efforts)} numbers for {len(self._command_order)} command_joints")
        torques = np.full(len(self.joints.names), np.nan)
        torques[self._command_order] = efforts
        self._add_command(np.where(possible(torques), torques, np.nan), stamp, received)

    def _add_command(self, torques, stamp, received):
        self._commands.append(Reading(stamp, TORQUE, torques))
        self._received[TORQUE] = received

    def _by_joint(self, layout, values):
        """Values (joints,), NaN for joints that are not in the message, and for values that are not
        `possible`."""
        by_joint = np.full(len(self.joints.names), np.nan)
        by_joint[layout.target] = np.asarray(values, dtype=float)[layout.source]
        return np.where(possible(by_joint), by_joint, np.nan)

    def _add(self, sensor, stamp, received, values):
        self._received[sensor] = received
        self.pending.add(Reading(stamp, sensor, values))

    # --- estimates ---------------------------------------------------------------------------------------

    def advance(self, steady_now: int) -> StampedEstimate | None:
        """Use all readings up to the newest joint states; None without a new estimate. Raises NoOutput."""
        self.require_fresh(steady_now)
        try:
            return self._next_estimate()
        except (Gap, TrajectoryError) as error:
            self.forget(str(error))
            return None

    def _next_estimate(self):
        newest = self.joints.newest
        if self._running is None:
            self._running = self._start(newest)
        running, settings = self._running, self.settings
        due = self.pending.pop_until(newest + running.grid.period // 2)
        for reading in sorted(due, key=running.order):
            running.add_reading(reading)
        solved = running.solve()
        self._note_rejections()
        if solved and (estimate := running.delayed_estimate(settings.steps_of_lag)) is not None:
            self.last = estimate
            return estimate
        return None

    def _note_rejections(self):
        """Log lines for sensors that are rejected from now on, and for sensors that are used again."""
        before, self._rejected = self._rejected, self.rejected_sensors()
        for name, error in self._rejected.items():
            if name not in before or (error and not before[name]):
                known = f"; mean error {error}: check its mounting, calibration and stamps" if error else ""
                self.notes.append(
                    f"readings of {one_line(name)} are rejected: they contradict the encoders{known}"
                )
        if accepted := sorted(before.keys() - self._rejected.keys()):
            self.notes.append(f"readings of {one_line(listed(accepted))} are used again")

    def _start(self, newest):
        """An estimate that starts at the current positions. Raises NoOutput if loops cannot be closed."""
        at = self.coordinates
        try:
            q = at.close(at.position(self.joints.position))
        except ClosureError as error:
            raise NoOutput(str(error)) from None
        smoother = JointSmoother(self.robot.smoothed, self._options, q)
        self.pending.pop_until(newest - 1)  # readings before the first step
        grid = TimeGrid(newest, round(1e9 / self.settings.rate))
        return RunningEstimate(
            smoother, grid, at, self._friction, self._commands, self._timeout, self.pending
        )

    # --- missing input -----------------------------------------------------------------------------------

    def require_fresh(self, steady_now: int):
        """Raise NoOutput if joint states are incomplete or stale."""
        joints, timeout = self.joints, self.settings.joint_state_timeout
        if missing := joints.missing():
            raise NoOutput(
                f"never seen: {listed(missing)}", remedy=NO_STATES if joints.never_received() else LEAVE_OUT
            )
        if stale := joints.stale(steady_now, int(timeout * 1e9)):
            raise NoOutput(f"joint states older than {timeout:g} s: {listed(stale)}", True)

    def rejected_sensors(self) -> dict[str, str]:
        """{name: mean error in words, if it lasts, else ''} of sensors whose last readings contradicted the
        encoders, sorted."""
        if self._running is None:
            return {}
        gate = self._running.gate
        return {self.name_of(one): gate.lasting_errors.get(one, "") for one in sorted(gate.suspected)}

    @staticmethod
    def name_of(sensor: str) -> str:
        """Name of a sensor in reports: joint_states for encoders, torques, or its own name."""
        return {ENCODER: "joint_states", TORQUE: "torques"}.get(sensor, sensor)

    def stale_sensors(self, steady_now: int) -> dict[str, str]:
        """{sensor: 'never' or its age} for sensors without a reading within sensor_timeout."""
        names = {sensor.name: sensor.name for sensor in self.robot.smoothed.sensors}
        if self.settings.torque_source != NONE:
            names[TORQUE] = f"{self.settings.torque_source} torques"
        ages = {}
        for key, name in names.items():
            received = self._received.get(key, NEVER)
            if received == NEVER:
                ages[name] = "never"
            elif steady_now - received > self._timeout:
                ages[name] = f"{(steady_now - received) * 1e-9:.1f} s"
        return ages
