"""The robot of the tracking demo on topics: an arm in MuJoCo follows a trajectory under PD control.

In the first third, only PD acts; in the second, the node's gravity torques are added; in the last, its full
feed-forward torques.
"""

import time
from collections import deque
from typing import NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from dynamics_interfaces.srv import SetPayload
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.tracked_arm import CYCLE, CYCLE_NS, PAYLOAD, TrackedArm, Trajectory, feedback
from dynamics_node.node.ros.messages import doubles, inertia_message, nanoseconds, point_message

MOST_LATE = 5  # cycles: longest delay of a torque before the simulation waits for it
AGAIN = 10  # cycles between repeated states while the simulation waits
POLLING = 50  # cycles between checks for the node and the monitor
LEAD = 100  # cycles from sending the trajectory to its start
REPORT = 500  # cycles between diagnostics
READY = "demo_monitor/ready"  # topic of the monitor, published after it discovers the torque publisher
STATUS = "demo_motion: control"  # name of the diagnostics


class Torques(NamedTuple):
    """A message of the node: values (7,), and the cycle of its state."""

    cycle: int
    values: np.ndarray


class Plant(Node):
    """One cycle of control and simulation per tick.

    ROS time is the time of the simulation, on /clock. A loaded machine slows the robot down but does not
    cause errors: missed cycles are not repeated, and if torques are late by more than MOST_LATE cycles, the
    simulation waits.
    """

    def __init__(self, urdf, seconds):
        super().__init__("demo_motion")
        self._arm, self._trajectory = TrackedArm(urdf), Trajectory.lasting(seconds)
        self._start = time.time_ns() // 1_000_000_000 * 1_000_000_000
        self._cycle = 0
        self._effort = np.zeros(7)
        self._gravity = self._full = Torques(0, np.zeros(7))
        self._sent: dict[int, float] = {}
        self._delays: deque[float] = deque(maxlen=20_000)
        self._cycles = self._late = self._waits = 0
        self._rate = 0.0
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        create = self.create_publisher
        self._description = create(String, "robot_description", latched)
        self._clock_of_all = create(ClockMessage, "/clock", 10)
        self._states = create(JointState, "joint_states", 10)
        self._reference = create(JointTrajectory, "dynamics_node/reference", latched)
        self._diagnostics = create(DiagnosticArray, "/diagnostics", 10)
        self.create_subscription(JointState, "dynamics_node/gravity_torques", self._on_gravity, 10)
        self.create_subscription(JointState, "dynamics_node/joint_torques", self._on_full, 10)
        self._set_payload = self.create_client(SetPayload, "dynamics_node/set_payload")
        self._description.publish(String(data=urdf))
        self._course = self.run()
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = self.create_timer(CYCLE, self._tick, clock=steady)

    def _tick(self):
        if next(self._course, StopIteration) is StopIteration:
            self._timer.cancel()

    def run(self):
        """The demo from start to end; yields at the end of each cycle."""
        yield from self._load()
        while not self.count_publishers(READY):
            yield from self._rest(POLLING)
        first = self._cycle + LEAD
        self._reference.publish(self._message(first))
        yield from self._rest(LEAD - 1)
        self._gravity = self._full = Torques(self._cycle, np.zeros(7))
        yield from self._control()
        self._report()

    def _load(self):
        """Set the payload; the node accepts it once it serves the robot."""
        loaded = False
        while not loaded:
            yield from self._rest(POLLING)
            if not self._set_payload.service_is_ready():
                continue
            answer = self._set_payload.call_async(_request())
            while not answer.done():
                yield from self._rest(1)
            loaded, reason = answer.result().success, answer.result().message
            if not loaded:
                self.get_logger().info(f"set_payload: {reason}", throttle_duration_sec=5.0, skip_first=True)

    def _rest(self, cycles):
        """The arm rests on its brakes."""
        for _ in range(cycles):
            self._send()
            yield

    def _control(self):
        """Follow the trajectory, which starts in the next cycle."""
        steps = round(self._trajectory.seconds / CYCLE)
        began = time.monotonic()
        for k in range(steps):
            yield from self._wait()
            self._send()
            added = (None, self._gravity, self._full)[3 * k // steps]
            feedforward = self._values(added) if added else np.zeros(7)
            self._effort = feedforward + feedback(self._trajectory, k * CYCLE, self._arm.q, self._arm.qd)
            self._arm.step(self._effort)
            self._rate = (k + 1) / (time.monotonic() - began)
            if k % REPORT == 0:
                self._report()
            yield

    def _wait(self):
        """Pause the simulation while a torque is late by more than MOST_LATE cycles."""
        waited = 0
        while self._cycle - min(self._gravity.cycle, self._full.cycle) > MOST_LATE:
            waited += 1
            if waited % AGAIN == 0:  # joint states are best effort and may be lost
                self._publish()
            yield
        self._waits += waited > 0

    def _values(self, torques):
        """Values of the newest torques; on time, they belong to the previous state."""
        self._cycles += 1
        self._late += torques.cycle < self._cycle - 1
        return torques.values

    # --- messages ---------------------------------------------------------------------------------

    def _send(self):
        """Begin a cycle: publish its time and state."""
        self._cycle += 1
        self._clock_of_all.publish(ClockMessage(clock=self._stamp(self._cycle)))
        self._sent[self._cycle] = time.monotonic()
        self._publish()

    def _publish(self):
        state = JointState(
            name=PANDA_JOINTS,
            position=doubles(self._arm.q),
            velocity=doubles(self._arm.qd),
            effort=doubles(self._effort),
        )
        state.header.stamp = self._stamp(self._cycle)
        self._states.publish(state)

    def _stamp(self, cycle):
        stamp = ClockMessage().clock
        stamp.sec, stamp.nanosec = divmod(self._start + cycle * CYCLE_NS, 1_000_000_000)
        return stamp

    def _message(self, first):
        """The trajectory, starting in cycle `first`."""
        message = JointTrajectory(joint_names=PANDA_JOINTS)
        message.header.stamp = self._stamp(first)
        for t, values in zip(self._trajectory.time, self._trajectory.points, strict=True):
            point = point_message(*values, ())
            since = round(t * 1e9)
            point.time_from_start.sec, point.time_from_start.nanosec = divmod(since, 1_000_000_000)
            message.points.append(point)
        return message

    def _torques(self, message):
        cycle = (nanoseconds(message.header.stamp) - self._start) // CYCLE_NS
        order = [message.name.index(name) for name in PANDA_JOINTS]
        return Torques(cycle, np.array(message.effort)[order])

    def _on_gravity(self, message):
        self._gravity = self._torques(message)

    def _on_full(self, message):
        self._full = self._torques(message)
        if sent := self._sent.pop(self._full.cycle, None):
            self._delays.append(time.monotonic() - sent)

    def _report(self):
        """Diagnostics of the control loop, for the monitor."""
        p50, p99 = np.percentile(self._delays, (50, 99)) * 1e6 if self._delays else (0.0, 0.0)
        values = {
            "cycles with feed-forward": self._cycles,
            "late": self._late,
            "waits": self._waits,
            "rate [Hz]": round(self._rate, 1),
            "state to torque p50 [us]": round(p50),
            "state to torque p99 [us]": round(p99),
        }
        status = DiagnosticStatus(
            level=DiagnosticStatus.OK,
            name=STATUS,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        self._diagnostics.publish(DiagnosticArray(status=[status]))


def _request():
    """The payload as a set_payload request."""
    moment = PAYLOAD.moment * np.eye(3)
    inertia = inertia_message(PAYLOAD.mass, PAYLOAD.center, moment)
    return SetPayload.Request(link=PAYLOAD.link, inertia=inertia)
