"""The monitor of the demos on legs: errors of the body, and verification of torques and contact forces."""

import textwrap
import time
from functools import cached_property
from itertools import product

import numpy as np
from dynamics_interfaces.msg import ContactStates, ContactWrenches
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from rich.table import Table
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.legged_plant import GROUND, READY, WANTED
from dynamics_demo.legged_plots import plot_legged, save_legged_animation
from dynamics_demo.legged_robots import CYCLE, PHASES, Legged
from dynamics_demo.oracles import StandingOracle, torque_error
from dynamics_demo.watching import Watched
from dynamics_node.node.ros.messages import (
    accel_numbers,
    nanoseconds,
    pose_numbers,
    twist_numbers,
    wrench_numbers,
)

SETTLING = 1.0  # s at the start of each phase that are ignored, at most a half of it
TOLERANCE = 1e-10  # relative error of torques and forces
LEAST_IMPROVEMENT = 3.0  # of the position of the body, by full feed-forward over PD alone
NEAR = (
    0.1  # largest error of forces with full feed-forward, relative to those of the ground, root mean square
)
LAG = 5  # cycles that odometry and references may come late, on a loaded machine
LATE = 0.1  # s: the set in use may be older than the state by this
SMALL = 0.05  # of the weight: the most that a foot bears just before it is lifted and just after
LIFTED = 0.8  # least share of the time of a lifted foot in which it does not touch the ground
DEPTH = 5000  # messages queued while the table is drawn
LINGER = 0.5  # s to wait for the last messages
AXES = ("x, mm", "y, mm", "z, mm", "roll, mrad", "pitch, mrad", "yaw, mrad")
KINDS = ("states", "odometry", "wanted", "torques", "wrenches", "ground")  # a cycle has one message each, ...
WITH_REFERENCE = ("reference", "base")  # ... and with full feed-forward one of these, too


class LeggedMonitor(Watched):
    """Uses topics only. Of the checked cycles: times (s); q (nq,); error (6,) of the body, m and rad; active
    (feet,), the set in use; forces and ground (feet, 6), N m and N; difference, relative, from Pinocchio."""

    def __init__(self, legged: Legged, seconds):
        super().__init__("demo_monitor")
        self.legged, self.seconds, self._joints = legged, seconds, legged.robot().joint_names
        self.times, self.q, self.error, self.active = [], [], [], []
        self.forces, self.ground, self.difference, self._stamps = [], [], [], []
        self._messages = {kind: {} for kind in (*KINDS, *WITH_REFERENCE, "sets")}  # values by stamp
        self._oracle, self._ready, self._first, self._ended = None, None, 0, 0.0
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "robot_description", self._on_description, latched)
        for listened in (
            (JointState, "joint_states", "states", self._state),
            (Odometry, "odom", "odometry", _odometry),
            (Odometry, WANTED, "wanted", _odometry),
            (JointTrajectory, "dynamics_node/reference", "reference", self._accelerations),
            (AccelStamped, "dynamics_node/base_acceleration", "base", lambda m: accel_numbers(m.accel)),
            (ContactStates, "dynamics_node/active_contacts", "sets", self._in_order),
            (JointState, "dynamics_node/joint_torques", "torques", self._torques),
            (ContactWrenches, "dynamics_node/contact_wrenches", "wrenches", self._wrenches),
            (ContactWrenches, GROUND, "ground", self._wrenches),
        ):
            self._listen(*listened)

    def _listen(self, message_type, topic, kind, values):
        def on_message(message):
            if self._ready is None and self.count_publishers("dynamics_node/contact_wrenches"):
                self._ready = self.create_publisher(Empty, READY, 1)
            self.take(kind, nanoseconds(message.header.stamp), values(message))

        self.create_subscription(message_type, topic, on_message, DEPTH)

    def _on_description(self, message):
        self._oracle = StandingOracle(message.data, self._joints, self.legged.contacts())

    def _in_order(self, message):
        """The flags (feet,) of a ContactStates or ContactWrenches."""
        return tuple(message.active[message.names.index(foot)] for foot in self.legged.feet)

    def _wrenches(self, message):
        """Flags (feet,), () without, and components (feet, 6) of a ContactWrenches."""
        components = np.array([wrench_numbers(wrench) for wrench in message.components])
        order = [message.names.index(foot) for foot in self.legged.feet]
        return self._in_order(message) if message.active else (), components[order]

    def _of_joints(self, names, *arrays):
        order = [names.index(name) for name in self._joints]
        return [np.array(array)[order] for array in arrays]

    def _state(self, message):
        return self._of_joints(message.name, message.position, message.velocity)

    def _torques(self, message):
        return self._of_joints(message.name, message.effort)[0]

    def _accelerations(self, message):
        return self._of_joints(message.joint_names, message.points[0].accelerations)[0]

    def take(self, kind, stamp, value):
        """Store the first value of a cycle, and compare the outputs once all its values have arrived."""
        self._messages[kind].setdefault(stamp, value)
        if all(stamp in self._messages[kind] for kind in self._needed(stamp)):
            self._check(stamp)

    def _needed(self, stamp):
        """Kinds of the messages of a cycle."""
        first = self._first or min(self._messages["wanted"], default=stamp)
        begin = self.phases[PHASES[-1]][0]
        return KINDS + (WITH_REFERENCE if 1e-9 * (stamp - first) > begin + 0.5 * CYCLE else ())

    def _check(self, stamp):
        taken = {kind: self._messages[kind].pop(stamp) for kind in KINDS if kind != "odometry"}
        if not self.times:
            self._first = stamp
        pose, wanted = (np.array(v) for v in (self._messages["odometry"][stamp], taken["wanted"]))
        (q, qd), (active, forces) = taken["states"], taken["wrenches"]
        self.difference.append(self._compared(stamp, q, qd, active, taken["torques"], forces))
        self.times.append(1e-9 * (stamp - self._first))
        self.q.append(np.concatenate([pose[:7], q]))
        self.error.append(_error(pose, wanted))
        self.active.append(active)
        self._stamps.append(stamp)
        self.forces.append(forces)
        self.ground.append(taken["ground"][1])
        for kind in ("odometry", "reference", "base"):
            self._messages[kind].pop(stamp - (LAG + 1) * round(CYCLE * 1e9), None)

    @cached_property
    def late(self):
        """For every cycle, how long ago the set in use was the wanted one, s. Computed at the end: a set may
        arrive after the torques of its cycle."""
        return [self._lateness(*cycle) for cycle in zip(self._stamps, self.active, strict=True)]

    def _lateness(self, stamp, active):
        """Time since the active contacts in use were the wanted ones, s."""
        sets, until = self._messages["sets"], stamp
        for begin in sorted((at for at in sets if at <= stamp), reverse=True):
            if sets[begin] == active:
                return 1e-9 * (stamp - until)
            until = begin
        return np.inf

    def _compared(self, stamp, q, qd, active, tau, forces):
        """Relative difference of torques and forces from Pinocchio's, by the inputs that the node may have
        had."""
        least, units = np.inf, self._oracle.units
        for odometry, qdd in self._inputs(stamp):
            state = np.concatenate([odometry[:7], q]), np.concatenate([odometry[7:], qd])
            expected, expected_forces = self._oracle.solve(*state, qdd, active)
            errors = torque_error(tau, expected), torque_error(forces / units, expected_forces / units)
            least = np.fmin(least, np.max(errors))
            if least <= TOLERANCE:
                break
        return least

    def _inputs(self, stamp):
        """Odometry and accelerations (nv,) that the node may have had, of this cycle or of a few before: the
        likely ones first."""
        odometry, bases = self._newest("odometry", stamp), self._newest("base", stamp, np.zeros(6))
        joints = self._newest("reference", stamp, np.zeros(len(self._joints)))
        choices = product(*(range(len(kind)) for kind in (odometry, bases, joints)))
        for o, b, j in sorted(choices, key=sum):
            yield np.array(odometry[o]), np.concatenate([bases[b], joints[j]])

    def _newest(self, kind, stamp, rest=None):
        """Values of the cycle and of those that may have come late, newest first; `rest` before the first."""
        kept = self._messages[kind]
        stamps = [stamp - n * round(CYCLE * 1e9) for n in range(LAG + 1)]
        values = [kept[at] for at in stamps if at in kept]
        return values if rest is None or len(values) > LAG else [*values, rest]

    # --- results ------------------------------------------------------------------------------------

    @cached_property
    def phases(self):
        """{name: (begin, end)} of the phases, s."""
        return self.legged.phases(self.seconds)

    def seen_enough(self, elapsed, options):
        """Shortly after the last cycle, or at the first error."""
        if self.times and not self.worst <= TOLERANCE:
            return True
        if self.times and self.times[-1] > self.seconds - 1.5 * CYCLE:
            self._ended = self._ended or time.monotonic()
            return time.monotonic() > self._ended + LINGER
        return False

    def settled(self, phase):
        """Indices of the evaluated cycles of a phase."""
        t, (begin, end) = np.array(self.times), self.phases[phase]
        return np.flatnonzero((t >= begin + min(SETTLING, (end - begin) / 2)) & (t < end))

    def rms(self, phase):
        """Error (6,) of the body in a phase, m and rad; NaN before it has settled."""
        at = self.settled(phase)
        return np.sqrt((np.array(self.error)[at] ** 2).mean(axis=0)) if at.size else np.full(6, np.nan)

    def position_error(self, phase):
        """Root mean square of the distance of the body from its reference in a phase, m."""
        return float(np.linalg.norm(self.rms(phase)[:3]))

    def sag(self, phase):
        """Mean height that the body lacks in a phase, m; NaN before it has settled."""
        at = self.settled(phase)
        return float(np.array(self.error)[at, 2].mean()) if at.size else np.nan

    def force_error(self, phase):
        """Difference of the node's forces from those of the ground in a phase, relative, root mean square.
        Moments of soles count by their half lengths."""
        if not (at := self.settled(phase)).size:
            return np.nan
        units = np.repeat([np.mean(self.legged.half_lengths or 1.0), 1.0], 3)
        forces, ground = np.array(self.forces)[at] / units, np.array(self.ground)[at] / units
        return float(np.sqrt(((forces - ground) ** 2).sum() / (ground**2).sum()))

    @property
    def weight(self):
        """Mean of the normal forces of the ground, N."""
        return float(np.array(self.ground)[:, :, 5].sum(axis=1).mean())

    def handed_over(self):
        """The largest normal force, N, of feet just before they are lifted and just after they are put down:
        in the node, and in MuJoCo. Zero without lifted feet."""
        active = np.array(self.active, dtype=bool)
        changed = active[1:] != active[:-1]
        sides = [
            np.maximum(np.abs(normal[:-1]), np.abs(normal[1:]))[changed]
            for normal in (np.array(self.forces)[..., 5], np.array(self.ground)[..., 5])
        ]
        return np.max(sides, axis=1, initial=0.0)

    def in_the_air(self, foot):
        """Share of the time in which a foot is not active and the ground does not touch it; NaN if it is
        always active."""
        k = self.legged.feet.index(foot)
        lifted = ~np.array(self.active, dtype=bool)[:, k]
        return float((np.array(self.ground)[lifted, k, 5] == 0.0).mean()) if lifted.any() else np.nan

    @property
    def worst(self):
        """The largest relative difference from Pinocchio; NaN if one is."""
        return float(np.max(self.difference))

    @property
    def better(self):
        """Ratio of the position error of PD alone to that of full feed-forward."""
        return self.position_error(PHASES[0]) / self.position_error(PHASES[-1])

    def verdict(self, least):
        """Reason for a failure, or ''."""
        if not self.times:
            return "no torque arrived"
        if not self.worst <= TOLERANCE:
            at = self.times[int(np.argmax(self.difference))]
            return f"a torque or force is wrong at {at:.3f} s: relative error {self.worst:.1e}"
        if not max(self.late) <= LATE:
            at, late = self.times[int(np.argmax(self.late))], max(self.late)
            return f"the active contacts at {at:.3f} s are {late:.3f} s old"
        for phase in self.phases:
            if self.settled(phase).size < least:
                return f"{phase}: {self.settled(phase).size} cycles were checked; {least} are required"
        if not self.better >= LEAST_IMPROVEMENT:
            return f"full feed-forward is {self.better:.1f} times better; {LEAST_IMPROVEMENT:g} are required"
        for phase in list(self.phases)[2:]:
            if not self.force_error(phase) <= NEAR:
                error = self.force_error(phase)
                return f"{phase}: contact forces differ from MuJoCo's by {error:.1%}, more than {NEAR:.0%}"
        return self._verdict_on_lifts()

    def _verdict_on_lifts(self):
        for foot in self.legged.lifted:
            if not (share := self.in_the_air(foot)) >= LIFTED:
                return f"{foot} is in the air for {share:.0%} of its lift, less than {LIFTED:.0%}"
        if not (force := max(self.handed_over())) <= SMALL * self.weight:
            return (
                f"a foot that is lifted or put down bears {force:.3g} N, more than {SMALL:.0%} of the weight"
            )
        return ""

    def line(self):
        error = " ".join(f"{1e3 * x:6.2f}" for x in self.error[-1])
        return f"{self.times[-1]:5.1f} s  {self._now:23} error of the body [mm, mrad] {error}"

    @property
    def _now(self):
        """The current phase."""
        return next(
            (name for name, (_, end) in self.phases.items() if self.times[-1] < end), list(self.phases)[-1]
        )

    def table(self):
        """Errors of the body in all phases that have begun, and the last normal forces."""
        title = f"{self.legged.title} on its feet"
        if not self.times:
            return Table(title=f"{title}: waiting for the first torque ...")
        table = Table(title=f"{title}, {self.times[-1]:.1f} s: {self._now}", caption=self._summary())
        table.add_column("error of\nthe body")
        for phase in self.phases:
            style = "bold" if phase == self._now else ""
            table.add_column("\n".join(textwrap.wrap(phase, 12)), justify="right", style=style)
        for name in ("normal force\nof foot", "node, N", "MuJoCo, N"):
            table.add_column(name, justify="right")
        rms = 1e3 * np.stack([self.rms(phase) for phase in self.phases])
        for k, axis in enumerate(AXES):
            table.add_row(
                axis, *("" if np.isnan(x) else f"{x:.2f}" for x in rms[:, k]), *self._normal_forces(k)
            )
        return table

    def _normal_forces(self, k):
        """Name of foot k, and its last normal forces: of the node, and in MuJoCo."""
        if k >= len(self.legged.feet):
            return "", "", ""
        node = f"{self.forces[-1][k][5]:.2f}" if self.active[-1][k] else "lifted"
        return self.legged.feet[k], node, f"{self.ground[-1][k][5]:.2f}"

    def _summary(self):
        return (
            f"{len(self.times)} cycles checked against Pinocchio, worst relative error of torques and forces "
            f"{self.worst:.1e}"
        )

    def save_plot(self, path):
        """See `Watched`."""
        plot_legged(self, path)

    def save_animation(self, path):
        """See `Watched`."""
        save_legged_animation(self, path)

    def verdict_lines(self, reason, plot):
        """See `Watched`."""
        if self.times:
            if all(self.settled(phase).size for phase in self.phases):  # else a run that ended early
                yield from self._figures()
            yield self._summary()
            if plot:
                yield f"plot: {plot}"
        yield f"FAILED: {reason}" if reason else "PASSED"

    def _figures(self):
        """Lines with the errors of all phases."""
        errors = (f"{1e3 * self.position_error(phase):.3g} mm {phase}" for phase in self.phases)
        yield f"distance of the body from its reference, root mean square: {', '.join(errors)}"
        first, last = (f"{1e3 * self.sag(phase):.3g} mm {phase}" for phase in (PHASES[0], PHASES[-1]))
        yield f"the body sags by {first}, {last}"
        yield f"full feed-forward is {self.better:.1f} times better than PD alone"
        errors = (f"{self.force_error(phase):.1%} {phase}" for phase in list(self.phases)[2:])
        yield f"contact forces differ from those in MuJoCo by {', '.join(errors)}"
        if self.legged.lifted:
            node, ground = self.handed_over()
            yield (
                f"when a foot is lifted or put down, it bears at most {node:.2g} N in the node and "
                f"{ground:.2g} N in MuJoCo; the weight is {self.weight:.3g} N"
            )


def _odometry(message):
    return (*pose_numbers(message.pose.pose), *twist_numbers(message.twist.twist))


def _error(pose, wanted):
    """Position, m, and rotation vector, rad, from a pose (x y z qx qy qz qw, ...) to the wanted one."""
    (x, y, z, w), (a, b, c, d) = pose[3:7], wanted[3:7]
    turn = 2 * np.array([
        w * a - x * d - y * c + z * b,
        w * b + x * c - y * d - z * a,
        w * c - x * b + y * a - z * d,
    ])  # fmt: skip
    return np.concatenate([wanted[:3] - pose[:3], turn * np.sign(x * a + y * b + z * c + w * d)])
