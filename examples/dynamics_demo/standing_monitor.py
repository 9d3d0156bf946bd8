"""The monitor of the quadruped demo: errors of the body, and verification of torques and contact forces."""

import time
from itertools import product

import numpy as np
from dynamics_interfaces.msg import ContactWrenches
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from rich.table import Table
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.oracles import StandingOracle, torque_error
from dynamics_demo.plots import HELD as THIRDS
from dynamics_demo.plots import plot_standing
from dynamics_demo.standing import GROUND, READY, WANTED
from dynamics_demo.standing_dog import CYCLE, FEET
from dynamics_demo.watching import Watched
from dynamics_node.node.ros.messages import accel_numbers, nanoseconds, pose_numbers, twist_numbers

TITLE = "Solo12 on four feet"
SETTLING = 1.0  # s at the start of each third that are ignored
TOLERANCE = 1e-10  # relative error of torques and forces
LEAST_IMPROVEMENT = 3.0  # of the position of the body, by full feed-forward over PD alone
NEAR = 0.05  # largest error of forces in the last third, relative to those of the ground, root mean square
DEPTH = 5000  # messages queued while the table is drawn
LINGER = 0.5  # s to wait for the last messages
AXES = ("x, mm", "y, mm", "z, mm", "roll, mrad", "pitch, mrad", "yaw, mrad")
KINDS = ("states", "odometry", "wanted", "torques", "wrenches", "ground")  # a cycle has one message each


class StandingMonitor(Watched):
    """Uses topics only. times (s), error (6,) of the body in m and rad, forces and ground (4, 3) in N, and
    difference (relative, from Pinocchio) of the checked cycles."""

    def __init__(self, seconds):
        super().__init__("demo_monitor")
        self.seconds, self.cycles = seconds, round(seconds / CYCLE)
        self.times, self.error, self.forces, self.ground, self.difference = [], [], [], [], []
        self._messages = {kind: {} for kind in (*KINDS, "reference", "base")}  # values by stamp
        self._oracle, self._ready, self._first, self._ended = None, None, 0, 0.0
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "robot_description", self._on_description, latched)
        self._listen(JointState, "joint_states", "states", lambda m: (m.name, m.position, m.velocity))
        for topic, kind in (("odom", "odometry"), (WANTED, "wanted")):
            self._listen(
                Odometry, topic, kind, lambda m: (*pose_numbers(m.pose.pose), *twist_numbers(m.twist.twist))
            )
        self._listen(
            JointTrajectory, "dynamics_node/reference", "reference",
            lambda m: (m.joint_names, m.points[0].accelerations),
        )  # fmt: skip
        self._listen(
            AccelStamped, "dynamics_node/base_acceleration", "base", lambda m: accel_numbers(m.accel)
        )
        self._listen(JointState, "dynamics_node/joint_torques", "torques", lambda m: (m.name, m.effort))
        for topic, kind in (("dynamics_node/contact_wrenches", "wrenches"), (GROUND, "ground")):
            self._listen(ContactWrenches, topic, kind, _forces)

    def _listen(self, message_type, topic, kind, values):
        def on_message(message):
            if self._ready is None and self.count_publishers("dynamics_node/contact_wrenches"):
                self._ready = self.create_publisher(Empty, READY, 1)
            stamp = nanoseconds(message.header.stamp)
            self._messages[kind][stamp] = values(message)
            if all(stamp in self._messages[kind] for kind in KINDS):
                self._check(stamp)

        self.create_subscription(message_type, topic, on_message, DEPTH)

    def _on_description(self, message):
        self._oracle = StandingOracle(message.data, FEET)

    def _check(self, stamp):
        """Compare the outputs of a cycle, once all its messages have arrived."""
        taken = {kind: self._messages[kind].pop(stamp) for kind in KINDS if kind != "odometry"}
        if not self.times:
            self._first = stamp
        pose, wanted = (np.array(v) for v in (self._messages["odometry"][stamp], taken["wanted"]))
        names, positions, velocities = taken["states"]
        order = [taken["torques"][0].index(name) for name in names]
        tau = np.array(taken["torques"][1])[order]
        given = (np.array(positions), np.array(velocities)), tau, taken["wrenches"]
        inputs = self._inputs(stamp, names)
        self.difference.append(min(self._compared(*given, *one) for one in inputs))
        self.times.append(1e-9 * (stamp - self._first))
        self.error.append(_error(pose, wanted))
        self.forces.append(taken["wrenches"])
        self.ground.append(taken["ground"])
        for kind in ("odometry", "reference", "base"):
            self._messages[kind].pop(stamp - 2 * round(CYCLE * 1e9), None)

    def _inputs(self, stamp, names):
        """Odometry and accelerations (18,) that the node may have had: of this cycle, or of the last."""
        before = stamp - round(CYCLE * 1e9)

        def newest(kind):
            return [self._messages[kind][at] for at in (stamp, before) if at in self._messages[kind]]

        references = newest("reference")
        joints = [np.array(r[1])[[r[0].index(name) for name in names]] for r in references]
        joints, bases = joints or [np.zeros(12)], newest("base") or [np.zeros(6)]
        if len(references) == 1:  # the first
            joints, bases = [*joints, np.zeros(12)], [*bases, np.zeros(6)]
        return [(np.array(o), np.concatenate(a)) for o, *a in product(newest("odometry"), bases, joints)]

    def _compared(self, joints, tau, forces, odometry, qdd):
        """Relative difference of torques and forces from Pinocchio's."""
        (q, qd), oracle = joints, self._oracle
        expected, expected_forces = oracle.solve(
            np.concatenate([odometry[:7], q]), np.concatenate([odometry[7:], qd]), qdd
        )
        return np.max([torque_error(tau, expected), torque_error(forces, expected_forces)])

    # --- results ------------------------------------------------------------------------------------

    def seen_enough(self, elapsed, options):
        """Shortly after the last cycle."""
        if self.times and self.times[-1] > self.seconds - 1.5 * CYCLE:
            self._ended = self._ended or time.monotonic()
            return time.monotonic() > self._ended + LINGER
        return False

    def third(self, n):
        """Indices of the evaluated cycles in third n."""
        t = np.array(self.times)
        begin, end = (self.seconds * k / 3 for k in (n, n + 1))
        return np.flatnonzero((t >= begin + SETTLING) & (t < end))

    def rms(self, n):
        """Error (6,) of the body in third n, m and rad; NaN before it has settled."""
        at = self.third(n)
        return np.sqrt((np.array(self.error)[at] ** 2).mean(axis=0)) if at.size else np.full(6, np.nan)

    def position_error(self, n):
        """Root mean square of the distance of the body from its reference in third n, m."""
        return float(np.linalg.norm(self.rms(n)[:3]))

    def force_error(self, n):
        """Difference of the node's forces from those of the ground in third n, relative, root mean square."""
        if not (at := self.third(n)).size:
            return np.nan
        forces, ground = np.array(self.forces)[at], np.array(self.ground)[at]
        return float(np.sqrt(((forces - ground) ** 2).sum() / (ground**2).sum()))

    @property
    def worst(self):
        """The largest relative difference from Pinocchio; NaN if one is."""
        return float(np.max(self.difference))

    @property
    def better(self):
        """Ratio of the position error of PD alone to that of full feed-forward."""
        return self.position_error(0) / self.position_error(2)

    def verdict(self, least):
        """Reason for a failure, or ''."""
        if not self.times:
            return "no torque arrived"
        if not self.worst <= TOLERANCE:
            at = self.times[int(np.argmax(self.difference))]
            return f"a torque or force is wrong at {at:.3f} s: relative error {self.worst:.1e}"
        for n, name in enumerate(THIRDS):
            if self.third(n).size < least:
                return f"{name}: {self.third(n).size} cycles were checked; {least} are required"
        if not self.better >= LEAST_IMPROVEMENT:
            return f"full feed-forward is {self.better:.1f} times better; {LEAST_IMPROVEMENT:g} are required"
        if not self.force_error(2) <= NEAR:
            return f"contact forces differ from MuJoCo's by {self.force_error(2):.1%}, more than {NEAR:.0%}"
        return ""

    def line(self):
        error = " ".join(f"{1e3 * x:6.2f}" for x in self.error[-1])
        return f"{self.times[-1]:5.1f} s  {THIRDS[self._now]:23} error of the body [mm, mrad] {error}"

    @property
    def _now(self):
        return min(int(3 * self.times[-1] / self.seconds), 2)

    def table(self):
        """Errors of the body in all thirds that have begun, and the last normal forces."""
        if not self.times:
            return Table(title=f"{TITLE}: waiting for the first torque ...")
        table = Table(title=f"{TITLE}, {self.times[-1]:.1f} s: {THIRDS[self._now]}", caption=self._summary())
        table.add_column("error of\nthe body")
        for n, name in enumerate(("PD\nalone", "with\nholding", "with full\nfeed-forward")):
            table.add_column(name, justify="right", style="bold" if n == self._now else "")
        for name in ("normal force\nof foot", "node, N", "MuJoCo, N"):
            table.add_column(name, justify="right")
        rms = 1e3 * np.stack([self.rms(n) for n in range(3)])
        for k, axis in enumerate(AXES):
            of_foot = ("", "", "")
            if k < len(FEET):
                of_foot = FEET[k], f"{self.forces[-1][k][2]:.2f}", f"{self.ground[-1][k][2]:.2f}"
            table.add_row(axis, *("" if np.isnan(x) else f"{x:.2f}" for x in rms[:, k]), *of_foot)
        return table

    def _summary(self):
        return (
            f"{len(self.times)} cycles checked against Pinocchio, worst relative error of torques and forces "
            f"{self.worst:.1e}"
        )

    def save_plot(self, path):
        """See `Watched`."""
        plot_standing(self, path)

    def verdict_lines(self, reason, plot):
        """See `Watched`."""
        if self.times:
            errors = (f"{1e3 * self.position_error(n):.3g} mm {name}" for n, name in enumerate(THIRDS))
            yield f"distance of the body from its reference, root mean square: {', '.join(errors)}"
            yield f"full feed-forward is {self.better:.1f} times better than PD alone"
            yield f"contact forces are within {self.force_error(2):.1%} of those in MuJoCo"
            yield self._summary()
            if plot:
                yield f"plot: {plot}"
        yield f"FAILED: {reason}" if reason else "PASSED"


def _forces(message):
    """Forces (4, 3) of a ContactWrenches, in the order of FEET."""
    forces = {
        n: (w.force.x, w.force.y, w.force.z) for n, w in zip(message.names, message.components, strict=True)
    }
    return np.array([forces[foot] for foot in FEET])


def _error(pose, wanted):
    """Position, m, and rotation vector, rad, from a pose (x y z qx qy qz qw, ...) to the wanted one."""
    (x, y, z, w), (a, b, c, d) = pose[3:7], wanted[3:7]
    turn = 2 * np.array([
        w * a - x * d - y * c + z * b,
        w * b + x * c - y * d - z * a,
        w * c - x * b + y * a - z * d,
    ])  # fmt: skip
    return np.concatenate([wanted[:3] - pose[:3], turn * np.sign(x * a + y * b + z * c + w * d)])
