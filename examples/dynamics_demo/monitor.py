"""demo_monitor: displays results of the node next to independently computed ones, live.

Exit code 0 only if messages arrived and every torque was correct. For tracking, feed-forward must reduce the
errors considerably; for quadruped and humanoid, the forces must also be those in MuJoCo; for touched,
external torques must agree within their noise and every contact must be detected.
"""

import sys
from collections import OrderedDict

import numpy as np
from rclpy.qos import DurabilityPolicy, QoSProfile
from rich.table import Table
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo import legged_robots
from dynamics_demo.legged_monitor import LeggedMonitor
from dynamics_demo.motion import FIVE_BAR
from dynamics_demo.oracles import TOLERANCE, torque_error
from dynamics_demo.plots import plot_torques
from dynamics_demo.touch_monitor import TouchMonitor
from dynamics_demo.tracking_monitor import TrackingMonitor
from dynamics_demo.watching import Watched, conclude, options_of, remember
from dynamics_node.node.ros.messages import nanoseconds
from dynamics_node.node.ros.running import start_rclpy

OPEN = 1e-9  # m: largest gap of a loop
LEAST = {
    "tracking": 100,
    "five_bar": 100,
    "touched": 1000,
    **dict.fromkeys(legged_robots.ROBOTS, 100),
}  # least number of checked messages per robot
LATE = 0.1  # s: the reference may be older than the state by this ...
MOST_LATE = 0.1  # ... in all but this share of the solutions, because a loaded machine delays some more


class Monitor(Watched):
    """Collects published messages and judges them."""

    def __init__(self, robot):
        super().__init__("demo_monitor")
        self.robot, self.oracle = robot, None
        self.drifts: list[float] = []
        self.times, self.published, self.computed, self.errors, self.latencies = [], [], [], [], []
        self.wrong_states = self.wrong_accelerations = 0
        self._states: OrderedDict[int, tuple] = OrderedDict()
        self._torques: OrderedDict[int, np.ndarray] = OrderedDict()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "robot_description", self.on_description, latched)
        self.create_subscription(JointState, "joint_states", self._on_state, 50)
        self.create_subscription(JointState, "dynamics_node/joint_torques", self._on_torques, 50)
        self.create_subscription(JointTrajectory, "dynamics_node/solution", self.on_solution, 50)

    def on_description(self, message):
        self.oracle = self.robot.oracle(message.data)

    def _on_state(self, message):
        remember(self._states, message, (np.array(message.position), np.array(message.velocity)))

    def _on_torques(self, message):
        now, stamp = self.get_clock().now().nanoseconds, nanoseconds(message.header.stamp)
        self.latencies.append((now - stamp) * 1e-3)
        order = [message.name.index(name) for name in self.robot.joints]
        remember(self._torques, message, np.array(message.effort)[order])

    def on_solution(self, message):
        stamp = nanoseconds(message.header.stamp)
        if self.oracle is None or stamp not in self._states or stamp not in self._torques:
            return
        order = [message.joint_names.index(name) for name in self.robot.joints]
        point = message.points[0]
        positions = dict(zip(message.joint_names, point.positions, strict=True))
        q, qd, qdd = (np.array(f)[order] for f in (point.positions, point.velocities, point.accelerations))
        if not self.times and not qdd.any():
            return  # the node has not discovered the reference publisher yet
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
        """Reason for a failure, or ''."""
        if not self.times:
            return "no torque arrived"
        if max(self.errors) > TOLERANCE:
            return f"a torque is wrong: relative error {max(self.errors):.1e} > {TOLERANCE:g}"
        if self.drifts and max(self.drifts) > OPEN:
            return f"the loop is open by {max(self.drifts):.1e} m > {OPEN:g}"
        if self.wrong_states:
            return f"{self.wrong_states} solutions do not match the state of their stamp"
        if self.wrong_accelerations > MOST_LATE * len(self.times):
            return f"{self.wrong_accelerations} solutions ignore the reference acceleration"
        if len(self.times) < least:
            return f"only {len(self.times)} torques were checked, {least} are required"
        return ""

    def line(self):
        torques = " ".join(f"{x:7.2f}" for x in self.published[-1])
        return f"{self.rate():4.0f} Hz  torques [N m] {torques}  error {self.errors[-1]:.0e}"

    def table(self):
        table = Table(
            title=f"{self.robot.title}: torques on /dynamics_node/joint_torques", caption=self._caption()
        )
        for column in ("joint", "published [N m]", "Pinocchio [N m]", "difference"):
            table.add_column(column, justify="left" if column == "joint" else "right")
        if not self.times:
            table.add_row("waiting for the first torque ...", "", "", "")
            return table
        rows = (self.robot.joints, self.published[-1], self.computed[-1])
        for name, tau, expected in zip(*rows, strict=True):
            table.add_row(name, f"{tau:9.4f}", f"{expected:9.4f}", f"{tau - expected:9.1e}")
        return table

    def _caption(self):
        if not self.times:
            return ""
        latency = np.percentile(self.latencies[-1000:], 50)
        return (
            f"{self.rate():.0f} Hz, {len(self.times)} checked, "
            f"worst relative error {max(self.errors):.1e}, stamp to reception {latency:.0f} us (median)"
        )

    def save_plot(self, path):
        """See `Watched`."""
        plot_torques(self, path)

    def verdict_lines(self, reason, plot):
        """See `Watched`."""
        if self.times:
            latency = np.percentile(self.latencies, (50, 99))
            yield (
                f"{len(self.times)} torques checked against Pinocchio at {self.rate():.0f} Hz: "
                f"worst relative error {max(self.errors):.1e}; stamp to reception "
                f"{latency[0]:.0f} us median, {latency[1]:.0f} us p99"
            )
            if self.drifts:
                yield f"the loop stays closed: its ends are {max(self.drifts):.1e} m apart at most"
            if plot:
                yield f"plot: {plot}"
        yield f"FAILED: {reason}" if reason else "PASSED"


def main(arguments=None):
    """The exit code of `conclude`."""
    given = sys.argv[1:] if arguments is None else arguments
    options = options_of("demo_monitor", __doc__, given, LEAST)
    stop = start_rclpy(given)
    monitors = {"tracking": TrackingMonitor, "five_bar": lambda: Monitor(FIVE_BAR), "touched": TouchMonitor}
    if (legged := legged_robots.ROBOTS.get(options.robot)) is not None:
        return conclude(LeggedMonitor(legged, options.seconds), stop, options)
    return conclude(monitors[options.robot](), stop, options)


if __name__ == "__main__":
    sys.exit(main())
