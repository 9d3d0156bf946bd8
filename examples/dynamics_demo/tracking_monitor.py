"""The monitor of the tracking demo: tracking errors, and verification of every torque."""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, QoSProfile
from rich.table import Table
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.oracles import TOLERANCE, ArmOracle, torque_error
from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.plots import ARM, plot_tracking, save_animation
from dynamics_demo.tracked_arm import CYCLE, CYCLE_NS, PAYLOAD, ROTORS, THIRDS, Trajectory
from dynamics_demo.tracking import MOST_LATE, READY, STATUS
from dynamics_demo.watching import Watched
from dynamics_node.node.ros.messages import nanoseconds

SETTLING = 1.0  # s at the start of each third that are ignored
LEAST_IMPROVEMENT = 10.0  # least improvement by full feed-forward over PD alone
SHIFT = (
    MOST_LATE + 3
)  # cycles between the stamp of a state and the ROS time at which the node reads the reference
DEPTH = 5000  # messages queued while the table is drawn
LINGER = 0.5  # s to wait for the last torques after the last state


class Tracking:
    """Results of a run by cycles of the trajectory; NaN without a message.

    error, q, torque, expected: (cycles, 7) in rad and N m; difference, gravity_difference: (cycles,) of
    published torques from Pinocchio's, relative.
    """

    def __init__(self, trajectory: Trajectory, oracle):
        self.trajectory, self._oracle = trajectory, oracle
        self.cycles = round(trajectory.seconds / CYCLE)
        self.error, self.q, self.torque, self.expected = np.full((4, self.cycles, 7), np.nan)
        self.difference, self.gravity_difference = np.full((2, self.cycles), np.nan)
        self.last = -1  # cycle of the last state

    @property
    def time(self):
        """(cycles,) s."""
        return CYCLE * np.arange(self.cycles)

    def state(self, k, q):
        """Record the position q (7,) of the arm in a cycle."""
        if 0 <= k < self.cycles:
            self.last = max(self.last, k)
            self.q[k], self.error[k] = q, self.trajectory.smooth(k * CYCLE)[0] - q

    def full(self, k, tau):
        """Record the torques (7,) of the node for the state of a cycle."""
        if 0 <= k < self.cycles:
            self.torque[k] = tau
            self.difference[k], self.expected[k] = self._compared(
                k, tau, lambda at: self._oracle.torques(*at)
            )

    def gravity(self, k, tau):
        """Record the gravity torques (7,) of the node for the state of a cycle."""
        if 0 <= k < self.cycles:
            self.gravity_difference[k], _ = self._compared(k, tau, lambda at: self._oracle.gravity(at[0]))

    def _compared(self, k, tau, compute):
        """Relative difference from Pinocchio, and Pinocchio's torques, at the reference of a cycle, or of a
        nearby one that agrees."""
        first = None
        for shift in sorted(range(-SHIFT, SHIFT + 1), key=abs):
            expected = compute(self.trajectory.linear((k + shift) * CYCLE))
            comparison = torque_error(tau, expected) if np.isfinite(tau).all() else np.inf, expected
            if comparison[0] <= TOLERANCE:
                return comparison
            first = first or comparison
        return first

    def third(self, n):
        """Slice of the evaluated cycles in third n."""
        first, end = (-(-self.cycles * k // 3) for k in (n, n + 1))
        return slice(first + round(SETTLING / CYCLE), end)

    def rms(self, n):
        """Tracking error (7,) of the joints in third n, rad; NaN before it has settled."""
        squares = self.error[self.third(n)] ** 2
        known = ~np.isnan(squares[:, 0])
        return np.sqrt(squares[known].mean(axis=0)) if known.any() else np.full(7, np.nan)

    def overall(self, n):
        """Tracking error of all joints together."""
        return float(np.sqrt((self.rms(n) ** 2).mean()))

    @property
    def better(self):
        """Ratio of the error of PD alone to that of full feed-forward."""
        return self.overall(0) / self.overall(2)

    def checked(self, n):
        """Number of checked torques of the node in third n."""
        return int(np.isfinite(self.difference[self.third(n)]).sum())

    def worst(self):
        """The largest relative difference of all torques; NaN without any."""
        both = np.concatenate((self.difference, self.gravity_difference))
        return float(np.nanmax(both)) if np.isfinite(both).any() else np.nan

    def verdict(self, least):
        """Reason for a failure, or ''."""
        if not self.worst() <= TOLERANCE:
            at = self.time[np.nanargmax(np.fmax(self.difference, self.gravity_difference))]
            return f"a torque is wrong at {at:.3f} s: relative error {self.worst():.1e} > {TOLERANCE:g}"
        for n, name in enumerate(THIRDS):
            seen = int(np.isfinite(self.error[self.third(n), 0]).sum())
            if min(seen, self.checked(n)) < least:
                return f"{name}: {seen} states and {self.checked(n)} torques arrived; {least} are required"
        if not self.better >= LEAST_IMPROVEMENT:
            return (
                f"full feed-forward is {self.better:.1f} times better than PD alone; "
                f"{LEAST_IMPROVEMENT:g} are required"
            )
        return ""


class TrackingMonitor(Watched):
    """Uses topics only. tracking: None before the trajectory; control: diagnostics of the control loop."""

    def __init__(self):
        super().__init__("demo_monitor")
        self.tracking: Tracking | None = None
        self.control: dict[str, str] = {}
        self.urdf, self._start, self._ended = "", 0, 0.0
        self.reference: JointTrajectory | None = None
        self._ready = None  # signals to the arm that torques arrive here
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        listen = self.create_subscription
        listen(String, "robot_description", self.on_description, latched)
        listen(JointTrajectory, "dynamics_node/reference", self.on_reference, latched)
        listen(JointState, "joint_states", self._on_state, DEPTH)
        listen(JointState, "dynamics_node/joint_torques", self._on_full, DEPTH)
        listen(JointState, "dynamics_node/gravity_torques", self._on_gravity, DEPTH)
        listen(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    @property
    def seen(self):
        return 0 if self.tracking is None else self.tracking.last + 1

    def seen_enough(self, elapsed, options):
        """Shortly after the last state."""
        if self.seen and self.seen == self.tracking.cycles:
            self._ended = self._ended or time.monotonic()
            return time.monotonic() > self._ended + LINGER
        return False

    def verdict(self, least):
        """Reason for a failure, or ''."""
        if self.tracking is None or np.isnan(self.tracking.difference).all():
            return "no torque arrived"
        return self.tracking.verdict(least)

    def on_description(self, message):
        self.urdf = message.data
        self._begin()

    def on_reference(self, message):
        self.reference = message
        self._begin()

    def _begin(self):
        """Start tracking once description and reference have arrived, in any order."""
        message = self.reference
        if not self.urdf or message is None or self.tracking is not None:
            return
        times = [1e-9 * nanoseconds(point.time_from_start) for point in message.points]
        q, qd, qdd = (
            np.array([getattr(point, field) for point in message.points])
            for field in ("positions", "velocities", "accelerations")
        )
        self._start = nanoseconds(message.header.stamp)
        oracle = ArmOracle(self.urdf, PANDA_JOINTS, ROTORS, PAYLOAD)
        self.tracking = Tracking(Trajectory(times, q, qd, qdd), oracle)

    def _on_state(self, message):
        if self._ready is None and self.count_publishers("dynamics_node/joint_torques"):
            self._ready = self.create_publisher(Empty, READY, 1)
        self._note("state", message, message.position)

    def _on_full(self, message):
        self._note("full", message, message.effort)

    def _on_gravity(self, message):
        self._note("gravity", message, message.effort)

    def _note(self, what, message, values):
        if self.tracking is not None:
            order = [message.name.index(name) for name in PANDA_JOINTS]
            cycle = (nanoseconds(message.header.stamp) - self._start) // CYCLE_NS
            getattr(self.tracking, what)(cycle, np.array(values)[order])

    def _on_diagnostics(self, message):
        for status in message.status:
            if status.name == STATUS:
                self.control = {entry.key: entry.value for entry in status.values}

    def line(self):
        """Errors of the last half second."""
        tracking = self.tracking
        recent = tracking.error[max(0, tracking.last - 250) : tracking.last + 1]
        errors = " ".join(f"{x:7.2f}" for x in 1e3 * np.sqrt(np.nanmean(recent**2, axis=0)))
        now = CYCLE * tracking.last
        return f"{now:5.1f} s  {THIRDS[_third(tracking)]:27} errors of the joints [mrad] {errors}"

    def table(self):
        """Tracking errors of all thirds that have begun, and the last compared torques."""
        if not self.seen:
            return Table(title=f"{ARM}: waiting for the first torque ...")
        tracking = self.tracking
        now = _third(tracking)
        title = f"{ARM}, {CYCLE * tracking.last:.1f} s: {THIRDS[now]}"
        table = Table(title=title, caption=self._summary())
        table.add_column("error,\nmrad")
        for n, name in enumerate(("PD\nalone", "with\ngravity", "with full\nfeed-forward")):
            table.add_column(name, justify="right", style="bold" if n == now else "")
        for name in ("torque,\nN m", "Pinocchio,\nN m", "difference"):
            table.add_column(name, justify="right")
        rms = 1e3 * np.stack([tracking.rms(n) for n in range(3)])
        known = np.flatnonzero(np.isfinite(tracking.difference))
        last = known[-1] if known.size else 0
        torque, expected = tracking.torque[last], tracking.expected[last]
        for k, joint in enumerate(PANDA_JOINTS):
            differs = "" if np.isnan(torque[k]) else f"{torque[k] - expected[k]:.1e}"
            errors, torques = map(_number, rms[:, k]), (_number(torque[k], 4), _number(expected[k], 4))
            table.add_row(joint.removeprefix("panda_"), *errors, *torques, differs, end_section=k == 6)
        table.add_row("all", *(_number(1e3 * tracking.overall(n)) for n in range(3)))
        return table

    def _summary(self):
        checked = int(np.isfinite(self.tracking.difference).sum())
        return (
            f"{checked} checked, worst relative error {self.tracking.worst():.1e}; {_control(self.control)}"
        )

    def save_plot(self, path):
        """See `Watched`."""
        plot_tracking(self.tracking, path)

    def save_animation(self, path):
        """See `Watched`."""
        save_animation(self.tracking, path)

    def verdict_lines(self, reason, plot):
        """See `Watched`."""
        tracking = self.tracking
        if tracking is not None:
            errors = (f"{1e3 * tracking.overall(n):.3g} mrad {name}" for n, name in enumerate(THIRDS))
            yield f"tracking error, root mean square of all joints: {', '.join(errors)}"
            yield f"full feed-forward is {tracking.better:.0f} times better than PD alone"
            yield f"torques against Pinocchio: {self._summary()}"
            if plot:
                yield f"plot: {plot}"
        yield f"FAILED: {reason}" if reason else "PASSED"


def _third(tracking):
    return min(3 * max(tracking.last, 0) // tracking.cycles, 2)


def _number(value, digits=2):
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _control(values):
    """Summary of the control loop diagnostics."""
    if not values:
        return ""
    late, cycles = values["late"], values["cycles with feed-forward"]
    return (
        f"{values['rate [Hz]']} cycles/s, {late} of {cycles} with a late torque, {values['waits']} waits; "
        f"state to torque {values['state to torque p50 [us]']} us median, "
        f"{values['state to torque p99 [us]']} us p99"
    )
