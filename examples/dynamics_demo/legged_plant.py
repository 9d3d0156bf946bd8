"""The robot of a demo on legs, on topics: it moves on its feet in MuJoCo.

In the first phase, only PD control of the joints acts; in the second, the torques of the node that hold the
body are added; then those of the full motion, with the reference of joints and body. In the last phase of the
quadruped, the set of active contacts changes whenever it lifts a foot and puts it down.
"""

import time

import numpy as np
from dynamics_interfaces.msg import ContactStates, ContactWrenches
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.legged_motion import Motion
from dynamics_demo.legged_robots import CYCLE
from dynamics_demo.legged_simulation import LeggedSimulation
from dynamics_node.node.ros.messages import (
    doubles,
    nanoseconds,
    plain_wrench,
    point_message,
    vector_message,
)

READY = "demo_monitor/ready"  # topic of the monitor, published after it discovers the publishers
AGAIN = 10  # ticks between repeated states while the simulation waits
POLLING = 50  # ticks between checks for the monitor
GROUND, WANTED = "demo/ground_wrenches", "demo/wanted_odom"  # topics for the monitor only
HOLDING, FULL = 1, 2  # first phases with torques of the node, and with a reference


class LeggedPlant(Node):
    """One cycle of control and simulation per tick. The simulation waits for the torques of every state, so a
    loaded machine slows the robot down but does not cause errors."""

    def __init__(self, legged, seconds):
        super().__init__("demo_motion")
        self._legged, self._joints = legged, list(legged.robot().joint_names)
        self._motion = Motion(legged, seconds)
        self._robot = LeggedSimulation(legged, self._joints, self._motion.q[0])
        self._start, self._cycle = time.time_ns() // 1_000_000_000 * 1_000_000_000, 0
        self._torques = np.zeros(len(self._joints))
        self._answered = -1  # cycle of the last torques
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        create = self.create_publisher
        self._description = create(String, "robot_description", latched)
        self._description.publish(String(data=legged.urdf()))
        self._odometry, self._wanted = create(Odometry, "odom", 10), create(Odometry, WANTED, 500)
        self._reference = create(JointTrajectory, "dynamics_node/reference", 10)
        self._feet = create(ContactStates, "dynamics_node/active_contacts", 10)
        self._base = create(AccelStamped, "dynamics_node/base_acceleration", 10)
        self._states = create(JointState, "joint_states", 10)
        self._ground = create(ContactWrenches, GROUND, 500)
        self.create_subscription(JointState, "dynamics_node/joint_torques", self._on_torques, 10)
        self._course = self.run()
        self._timer = self.create_timer(CYCLE, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _tick(self):
        if next(self._course, StopIteration) is StopIteration:
            self._timer.cancel()

    def run(self):
        """The demo from start to end; yields at the end of each tick."""
        while not self.count_publishers(READY):
            yield from self._answer(None)
            for _ in range(POLLING):
                yield
        motion = self._motion
        for k, phase in enumerate(motion.phase):
            if k == 0 or np.any(motion.active[k] != motion.active[k - 1]):
                self._feet.publish(self._feet_message(motion.active[k]))
            yield from self._answer(motion.qdd[k] if phase >= FULL else None)
            self._wanted.publish(self._odometry_message(motion.q[k, :7], motion.qd[k, :6]))
            self._robot.step(self._torques * (phase >= HOLDING), motion.q[k, 7:], motion.qd[k, 6:])
            self._ground.publish(self._ground_message())

    def _answer(self, qdd):
        """Publish a state and wait for its torques. qdd (nv,): the reference, or None."""
        self._cycle += 1
        ticks = 0
        while self._answered != self._cycle:
            if ticks % AGAIN == 0:  # some topics are best effort
                self._publish(qdd)
            ticks += 1
            yield

    # --- messages ---------------------------------------------------------------------------------

    def _publish(self, qdd):
        stamp = self._stamp()
        if qdd is not None:
            reference = JointTrajectory(joint_names=self._joints, points=[point_message((), (), qdd[6:], ())])
            base = AccelStamped()
            reference.header.stamp = base.header.stamp = stamp
            base.accel.angular, base.accel.linear = map(vector_message, np.split(qdd[:6], 2))
            self._reference.publish(reference)
            self._base.publish(base)
        self._odometry.publish(self._odometry_message(self._robot.pose, self._robot.twist))
        state = JointState(
            name=self._joints, position=doubles(self._robot.q), velocity=doubles(self._robot.qd)
        )
        state.header.stamp = stamp
        self._states.publish(state)

    def _odometry_message(self, pose, twist):
        message = Odometry(child_frame_id=self._legged.base)
        message.header.stamp = self._stamp()
        p, o = message.pose.pose.position, message.pose.pose.orientation
        p.x, p.y, p.z, o.x, o.y, o.z, o.w = map(float, pose)
        message.twist.twist.angular, message.twist.twist.linear = map(vector_message, np.split(twist, 2))
        return message

    def _ground_message(self):
        wrenches = [plain_wrench(wrench) for wrench in self._robot.wrenches]
        message = ContactWrenches(names=list(self._legged.feet), components=wrenches)
        message.header.stamp = self._stamp()
        return message

    def _feet_message(self, active):
        message = ContactStates(names=list(self._legged.feet), active=active.tolist())
        message.header.stamp = self._stamp()
        return message

    def _stamp(self):
        stamp = JointState().header.stamp
        at = self._start + self._cycle * round(CYCLE * 1e9)
        stamp.sec, stamp.nanosec = divmod(at, 1_000_000_000)
        return stamp

    def _on_torques(self, message):
        self._answered = (nanoseconds(message.header.stamp) - self._start) // round(CYCLE * 1e9)
        order = [message.name.index(name) for name in self._joints]
        self._torques = np.array(message.effort)[order]
