"""The estimator without ROS: readings in as plain values, estimates or a reason for silence out."""

from collections import deque

import numpy as np

from dynamics_node.algorithms import ClosureError
from dynamics_node.node.core.no_output import LEAVE_OUT, NO_STATES, NoOutput
from dynamics_node.node.core.torques import JointTorques
from dynamics_node.node.estimator.job import EstimatedRobot
from dynamics_node.node.estimator.readings import Grid, Reading, Waiting
from dynamics_node.node.estimator.running import ENCODERS, TORQUES, Gap, Running, Told
from dynamics_node.node.estimator.settings import MEASURED, NONE, EstimatorSettings
from dynamics_node.node.state.coordinates import coordinates_of
from dynamics_node.node.state.joint_memory import JUMP_BACK, NEVER, BadMessage, JointMemory
from dynamics_node.node.state.sensor_readings import Topic, own_numbers
from dynamics_node.robot import Robot
from dynamics_node.text import listed, shown
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.joint_smoother import JointSmoother

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
            f"{shown(self.model.name)}: {len(self.joints.names)} joints estimated at "
            f"{self.settings.rate:g} Hz over {self.settings.steps} steps"
            + (f", with {shown(listed(sensors))}" if sensors else "")
        )

    def apply(self, settings: EstimatorSettings):
        """Take over settings; the estimate begins anew."""
        self.settings = settings
        self._options = settings.options()
        self._friction = JointTorques(self.model, self.coordinates, settings)
        self._timeout = int(settings.sensor_timeout * 1e9)
        number = {name: k for k, name in enumerate(self.joints.names)}
        self._command_order = np.array([number[name] for name in settings.command_joints], dtype=int)
        self.forget()

    def forget(self, reason=""):
        """Begin anew with the next joint states. reason: why, if that is news."""
        if reason:
            self.restarts += 1
            self.notes.append(f"the estimate begins anew: {shown(reason)}")
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
        self._take(ENCODERS, stamp, received, self._of_joints(layout, position))
        if self.settings.torque_source == MEASURED and len(effort):
            self._take(TORQUES, stamp, received, self._of_joints(layout, effort))

    def hear_sensor(self, topic: Topic, numbers, frame: str, stamp: int, received: int):
        """The numbers (6,) of an IMU. Raises BadMessage: not finite, or of another frame."""
        values = np.array(numbers, dtype=float)
        for name, own in [(s.name, own_numbers(s, values, frame)) for s in topic.sensors]:
            self._take(name, stamp, received, own)

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
        self._commands.append(Reading(stamp, TORQUES, torques))
        self._received[TORQUES] = received

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
            names = shown(listed(["torques" if name == TORQUES else name for name in new]))
            self.notes.append(f"readings of {names} are rejected: those of encoders contradict them")
        if over := sorted(before - self._doubts):
            names = shown(listed(["torques" if name == TORQUES else name for name in over]))
            self.notes.append(f"readings of {names} count again")

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

    def silent_sensors(self, steady_now: int) -> dict[str, str]:
        """{sensor: 'never' or its age}, of those that have not been heard within sensor_timeout."""
        names = {sensor.name: sensor.name for sensor in self.robot.smoothed.sensors}
        if self.settings.torque_source != NONE:
            names[TORQUES] = f"{self.settings.torque_source} torques"
        found = {}
        for key, name in names.items():
            heard = self._received.get(key, NEVER)
            if heard == NEVER:
                found[name] = "never"
            elif steady_now - heard > self._timeout:
                found[name] = f"{(steady_now - heard) * 1e-9:.1f} s"
        return found
