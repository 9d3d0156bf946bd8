"""demo_monitor: shows published torques beside independently computed ones, live; exit code 0 only if
messages flowed and every torque was right."""

import argparse
import sys
import time
from collections import OrderedDict

import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.demo.check import TOLERANCE, torque_error
from dynamics_node.demo.report import live_table, save_plot, verdict_lines
from dynamics_node.demo.robots import ROBOTS
from dynamics_node.node.guard import Guard
from dynamics_node.node.messages import nanoseconds
from dynamics_node.node.running import end, make_executor, start_rclpy

OPEN = 1e-9  # m that the ends of a loop may be apart
LATE = 0.1  # s: how much older than the state the reference may be ...
MOST_LATE = 0.1  # ... in all but this share of the solutions: a busy machine delivers some even later
REMEMBERED = 5000
REFRESH = 0.1  # s


class Monitor(Node):
    """Collects what is published and judges it."""

    def __init__(self, robot):
        super().__init__("demo_monitor")
        self.robot, self.oracle = robot, None
        self.drifts: list[float] = []
        self.times, self.published, self.computed, self.errors, self.latencies = [], [], [], [], []
        self.wrong_states = self.wrong_accelerations = 0
        self._states: OrderedDict[int, tuple] = OrderedDict()
        self._torques: OrderedDict[int, np.ndarray] = OrderedDict()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "robot_description", self._on_description, latched)
        self.create_subscription(JointState, "joint_states", self._on_state, 50)
        self.create_subscription(JointState, "dynamics_node/joint_torques", self._on_torques, 50)
        self.create_subscription(JointTrajectory, "dynamics_node/solution", self._on_solution, 50)

    def _on_description(self, message):
        self.oracle = self.robot.oracle(message.data)

    def _on_state(self, message):
        _remember(self._states, message, (np.array(message.position), np.array(message.velocity)))

    def _on_torques(self, message):
        now, stamp = self.get_clock().now().nanoseconds, nanoseconds(message.header.stamp)
        self.latencies.append((now - stamp) * 1e-3)
        order = [message.name.index(name) for name in self.robot.joints]
        _remember(self._torques, message, np.array(message.effort)[order])

    def _on_solution(self, message):
        stamp = nanoseconds(message.header.stamp)
        if self.oracle is None or stamp not in self._states or stamp not in self._torques:
            return
        order = [message.joint_names.index(name) for name in self.robot.joints]
        point = message.points[0]
        positions = dict(zip(message.joint_names, point.positions, strict=True))
        q, qd, qdd = (np.array(f)[order] for f in (point.positions, point.velocities, point.accelerations))
        if not self.times and not qdd.any():
            return  # the node has not met the publisher of the reference yet
        tau = self._torques[stamp]
        expected = self.oracle.torques(positions, q, qd, qdd)
        self.times.append(stamp * 1e-9)
        self.published.append(tau)
        self.computed.append(expected)
        self.errors.append(torque_error(tau, expected))
        sent = self._states[stamp]
        self.wrong_states += not (np.array_equal(q, sent[0]) and np.array_equal(qd, sent[1]))
        late = np.abs(qdd - self.robot.acceleration_at(q)) > self.robot.acceleration_tolerance(LATE)
        self.wrong_accelerations += bool(late.any())
        if (drift := self.oracle.drift(positions)) is not None:
            self.drifts.append(drift)

    def rate(self):
        """Solutions per second over the last second."""
        recent = [t for t in self.times[-2000:] if t > self.times[-1] - 1.0]
        return len(recent) / max(1e-3, min(1.0, self.times[-1] - self.times[0])) if self.times else 0.0

    def verdict(self, least):
        """Why the run is not good, or '' when it is."""
        if not self.times:
            return "no torque arrived"
        if max(self.errors) > TOLERANCE:
            return f"a torque is wrong: relative error {max(self.errors):.1e} > {TOLERANCE:g}"
        if self.drifts and max(self.drifts) > OPEN:
            return f"the loop is open by {max(self.drifts):.1e} m > {OPEN:g}"
        if self.wrong_states:
            return f"{self.wrong_states} solutions do not carry the state of their stamp"
        if self.wrong_accelerations > MOST_LATE * len(self.times):
            return f"{self.wrong_accelerations} solutions ignore the reference acceleration"
        if len(self.times) < least:
            return f"only {len(self.times)} torques were checked, {least} are wanted"
        return ""


def _remember(table, message, value):
    table[nanoseconds(message.header.stamp)] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)


def watch(node, stop, seconds, least, patience, show=live_table):
    """Spin until `seconds` have passed since the first torque and `least` are checked; refresh what is shown.

    Neither the first torque nor the last that is wanted is waited for longer than `patience` s."""
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    begin = time.monotonic()
    first = None
    with show(node) as refresh:
        shown = 0.0
        while not stop.asked:
            executor.spin_once(timeout_sec=REFRESH)
            now = time.monotonic()
            if first is None and node.times:
                first = now
            if now > shown + REFRESH:
                refresh()
                shown = now
            seen_enough = first is not None and now > first + seconds and len(node.times) >= least
            given_up = now > (begin if first is None else first + seconds) + patience
            if seen_enough or given_up:
                break
    executor.remove_node(node)


def main(arguments=None):
    """0: messages flowed and were right; 1: not; 2: something to install is missing."""
    parser = argparse.ArgumentParser(prog="demo_monitor", description=__doc__)
    parser.add_argument("--robot", choices=ROBOTS, default="panda")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--plot", default="demo_torques.png", help="where to save the plot; '' for none")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for torques")
    parser.add_argument("--least", type=int, default=100, help="messages that must have been checked")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(remove_ros_args(["", *given])[1:])
    stop = start_rclpy(given)
    node = Monitor(ROBOTS[options.robot])
    try:
        watch(node, stop, options.seconds, options.least, options.patience)
        reason = node.verdict(options.least)
        if options.plot and node.times:
            save_plot(node, options.plot)
        print("\n".join(verdict_lines(node, reason, options.plot)), flush=True)
        return 1 if reason else 0
    except ImportError as error:
        print(f"demo_monitor: {error}", file=sys.stderr)
        return 2
    finally:
        end(node)


if __name__ == "__main__":
    sys.exit(main())
