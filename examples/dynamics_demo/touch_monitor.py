"""The monitor of the touched arm: compares external torques estimated by the node with the applied ones."""

from collections import OrderedDict

import numpy as np
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

import dynamics_node as dn
from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.plots import plot_touches
from dynamics_demo.pushed_arm import BANDWIDTH, NOISE, STEP
from dynamics_demo.watching import Watched, remember
from dynamics_node.node.ros.messages import nanoseconds

SETTLED = 8.0 / BANDWIDTH  # s: settling time of the estimate after a touch begins or ends
WITHIN = 0.97  # least share of settled estimates within three sigma; 0.997 for independent ones
DETECTED = 0.15  # s: longest detection delay
RELEASED = 1.0  # s: longest contact after the end of a touch
GAP = 4 * STEP  # s: a longer gap between estimates perturbs them
CUT = 0.05  # s: a longer one cuts a touch in two


class TouchMonitor(Watched):
    """Collects published messages and judges them. times: s of simulated time; estimates, truths, sigmas (7,)
    each; contacts: whether the node reports a contact."""

    def __init__(self):
        super().__init__("demo_touch_monitor")
        self.times, self.estimates, self.truths, self.sigmas, self.contacts = [], [], [], [], []
        self._observer, self._first, self._contact = None, None, False
        self._pushes: OrderedDict[int, np.ndarray] = OrderedDict()
        self._noise: OrderedDict[int, np.ndarray] = OrderedDict()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        listen = self.create_subscription
        listen(String, "robot_description", self._on_description, latched)
        listen(JointState, "demo/pushes", self._on_push, 500)
        listen(JointState, "joint_states", self._on_state, 500)
        listen(JointState, "dynamics_node/external_torques", self._on_estimate, 500)
        listen(
            Bool, "dynamics_node/contact", self._on_contact, 500
        )  # after the estimate: late by a cycle, never early

    def _on_description(self, message):
        """The covariance is not published; a separate observer computes it."""
        self._observer = dn.build_observer(
            dn.parse_robot(message.data),
            dn.ObserverOptions(velocity_std=NOISE.velocity, torque_std=NOISE.torque, bandwidth=BANDWIDTH),
        )

    def _on_push(self, message):
        remember(self._pushes, message, np.array(message.effort))

    def _on_state(self, message):
        if self._observer is None:
            return
        q, qd, tau = (np.array(field) for field in (message.position, message.velocity, message.effort))
        if self._observer.step(1e-9 * nanoseconds(message.header.stamp), q, qd, tau):
            remember(self._noise, message, np.sqrt(np.diag(self._observer.torque_covariance)))

    def _on_contact(self, message):
        self._contact = message.data

    def _on_estimate(self, message):
        stamp = nanoseconds(message.header.stamp)
        if stamp not in self._pushes or stamp not in self._noise:
            return
        if self._first is None:
            self._first = stamp
        order = [message.name.index(name) for name in PANDA_JOINTS]
        self.times.append(1e-9 * (stamp - self._first))
        self.estimates.append(np.array(message.effort)[order])
        self.truths.append(self._pushes[stamp])
        self.sigmas.append(self._noise[stamp])
        self.contacts.append(self._contact)

    def seen_enough(self, elapsed, options):
        """Also requires settled estimates and a touch: a loaded machine loses states."""
        enough = super().seen_enough(elapsed, options) and 10 * self.settled().sum() >= options.least
        return enough and bool(self.delays())

    def verdict(self, least):
        """Reason for a failure, or ''."""
        if not self.times:
            return "no estimate arrived"
        if len(self.times) < least:
            return f"only {len(self.times)} estimates were checked, {least} are required"
        delays = self.delays()
        if not delays:
            return f"no touch lasted {DETECTED:g} s without lost states"
        share = self.within()
        if share < WITHIN:
            return f"only {100 * share:.1f} % of the settled estimates are within three sigma"
        late = [begin for begin, delay in delays.items() if delay > DETECTED]
        if late:
            return f"the touch at {late[0]:.2f} s was not detected within {DETECTED:g} s"
        times, contacts = np.array(self.times), np.array(self.contacts)
        ends = touches(self.times, self.truths)[1]
        touched = np.any(self.truths, axis=1)
        for over in [0.0, *ends, *self.gaps()]:
            touched |= (times >= over) & (times <= over + RELEASED)
        if wrong := times[contacts & ~touched].tolist():
            return f"false contact at {wrong[0]:.2f} s"
        return ""

    def within(self):
        """Share of the settled estimates within three sigma."""
        errors = np.abs(np.array(self.estimates) - np.array(self.truths))
        settled = self.settled()
        return float((errors[settled] <= 3 * np.array(self.sigmas)[settled]).mean()) if settled.any() else 0.0

    def settled(self):
        """(k,) bool: no recent begin or end of a touch, start of estimates, or lost state."""
        times, (begins, ends) = np.array(self.times), touches(self.times, self.truths)
        changes = [0.0, *begins, *ends, *self.gaps()]
        return np.all([(times < at) | (times > at + SETTLED) for at in changes], axis=0)

    def gaps(self):
        """Times at which estimates resume after a gap: a loaded machine loses states and thus impulses."""
        times = np.array(self.times)
        return times[1:][np.diff(times) > GAP]

    def delays(self):
        """{begin of a touch: time to the first contact message, infinite without one}, s.

        A touch without a contact that was observed for less than DETECTED is not included.
        """
        times, found = np.array(self.times), {}
        begins, ends = touches(times, self.truths, CUT)
        detections = times[self.contacts]
        for begin in begins.tolist():
            delay = min(detections[detections >= begin], default=np.inf) - begin
            if delay <= DETECTED or min(ends[ends >= begin], default=times[-1]) - begin > DETECTED:
                found[begin] = delay
        return found

    def line(self):
        """See `Watched`."""
        estimate = " ".join(f"{x:6.2f}" for x in self.estimates[-1])
        touched = "touched" if self.contacts[-1] else ""
        return f"{self.times[-1]:6.1f} s  external torques [N m] {estimate}  {touched}"

    def save_plot(self, path):
        """See `Watched`."""
        plot_touches(self, path)

    def verdict_lines(self, reason, plot):
        """See `Watched`."""
        if self.times:
            settled = self.settled()
            errors = np.abs(np.array(self.estimates) - np.array(self.truths))[settled]
            yield (
                f"{len(self.times)} estimates compared with the torques applied by MuJoCo: of the settled "
                f"ones {100 * self.within():.1f} % are within three sigma, the largest error is "
                f"{errors.max(initial=0.0):.2f} N m"
            )
            delays = self.delays()
            if delays:
                milliseconds = ", ".join(f"{1e3 * d:.0f}" for d in delays.values())
                yield f"{len(delays)} touches, detected after {milliseconds} ms"
            if plot:
                yield f"plot: {plot}"
        yield f"FAILED: {reason}" if reason else "PASSED"


def touches(times, truths, longest_gap=np.inf):
    """Times at which touches begin, except one at the start, and at which they end.

    Samples that resume after a longer gap begin a touch anew.
    """
    times, touched = np.array(times), np.any(truths, axis=1)
    cut = np.diff(times) > longest_gap
    begin = touched[1:] & (cut | ~touched[:-1])
    end = touched[:-1] & (cut | ~touched[1:])
    return times[1:][begin], times[:-1][end]
