"""A process that moves the robot and checks every torque. Its own delays do not matter, because the
middleware stamps the publication of torques."""

import multiprocessing
import time
from typing import NamedTuple

import numpy as np
import rclpy
from domains import Domain
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rig import floats, set_stamp, stamp_of
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from campaigns.cores import CoreWait
from campaigns.judge import Judge
from campaigns.references import References

SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
DISABLED = 0.05  # s for which the node is disabled
POLL_PERIOD = 0.005  # s between polls of the pipe and the button
PAUSE = 0.7  # s between two stops
MARGIN = 0.15  # s added to joint_state_timeout: the node checks the age before it computes and publishes
TIMEOUT = 0.2  # joint_state_timeout, its default


class Report(NamedTuple):
    """Observations since the last report; stops: (duration of set_enabled false, its part with a core), s;
    waiting: the same for a pending call."""

    counts: dict
    findings: list
    stops: list
    waiting: tuple
    sent: int
    percentiles: dict


class Watch:
    """Client of the watching process."""

    def __init__(self, domain: Domain, rate):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_main, args=(tuple(domain), rate, other), daemon=True)
        self._process.start()
        self._send_request("ready")

    def allow(self, *configurations):
        """Set the valid Configurations of torques."""
        self._send_request("allow", configurations)

    def set_efforts(self, configuration=None, noise=0.0):
        """Set the measured efforts: those of a Configuration with noise of a standard deviation, N m; None
        for no efforts."""
        self._send_request("set_efforts", configuration, noise)

    def set_pid(self, process):
        """Set the process id of the node, for its time without a core."""
        self._send_request("set_pid", process)

    def set_pressing(self, often):
        """Whether to press the stop button repeatedly."""
        self._send_request("set_pressing", often)

    def report(self) -> Report:
        """Observations since the last report; resets them."""
        return self._send_request("report")

    def peek(self) -> Report:
        """Observations since the last report, without a reset."""
        return self._send_request("peek")

    def end(self):
        """End the process."""
        self._send_request("end")
        self._process.join(10)

    def _send_request(self, *request):
        self._pipe.send(request)
        if not self._pipe.poll(120):
            raise RuntimeError("the watching process does not answer")
        return self._pipe.recv()


class Button:
    """Calls set_enabled false and true; times: (duration of false, its part with a core), s."""

    def __init__(self, node, judge, waited):
        self._client = node.create_client(SetBool, "dynamics_node/set_enabled")
        self._judge, self._waited = judge, waited
        self.pressing = False
        self.times = []
        self.release()

    def release(self):
        """Drop a pending call: the node is restarted or stopped."""
        self._stop_sent = self._future = self._disabled_at = None
        self._next = time.monotonic() + PAUSE

    @property
    def waiting(self):
        """Duration of a pending stop, as in `times`."""
        if not self._stop_sent:
            return 0.0, 0.0
        now = time.time_ns()
        took = (now - self._stop_sent) * 1e-9
        return took, took - self._waited(self._stop_sent, now)

    def step(self):
        """Send or complete a call, if due."""
        now = time.monotonic()
        if self._future is not None:
            if self._future.done():
                self._on_reply(now)
        elif self._disabled_at:
            self._enable_when_due(now)
        elif now > self._next and self.pressing and self._client.service_is_ready():
            self._send_request(False)
            self._stop_sent = time.time_ns()

    def _on_reply(self, now):
        self._future = None
        if self._stop_sent:  # the node is disabled
            self.times.append(self.waiting)
            self._stop_sent, self._disabled_at = None, time.time_ns()
            self._enable_at = now + DISABLED

    def torque(self, published):
        """Check the publication time of a torque."""
        if self._disabled_at and published > self._disabled_at:
            self._judge.after_stop((published - self._disabled_at) * 1e-9)

    def _enable_when_due(self, now):
        """End a stop, if due."""
        if now > self._enable_at:
            self._disabled_at = None
            self._next = now + PAUSE
            self._send_request(True)

    def _send_request(self, enabled):
        self._future = self._client.call_async(SetBool.Request(data=enabled))


class _WatchProcess:
    """The watching process."""

    def __init__(self, domain, rate, pipe):
        self._pipe = pipe
        self._context = Context()
        rclpy.init(args=domain.remappings(), context=self._context, domain_id=domain.number)
        self._references = References()
        self._core_wait = CoreWait("self")
        self._judge = Judge(self._references, TIMEOUT + MARGIN, self._waited)
        pressing = Node("pressing", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(pressing)
        self._button = Button(pressing, self._judge, self._waited)
        node = Node("watch", context=self._context)  # in no executor: messages are polled
        self._publisher = node.create_publisher(JointState, "joint_states", SENSOR)
        self._torques = node.create_subscription(JointState, "dynamics_node/joint_torques", id, 1000)
        self._message = JointState(name=self._references.names)
        self._period, self._sent = 1 / rate, 0
        self._configuration, self._noise = None, 0.0
        self._random = np.random.default_rng(0)
        self._running = True

    def run(self):
        """Run until the request end."""
        due = look = time.monotonic()
        while self._running:
            self._send()
            self._take()
            if time.monotonic() >= look:
                self._poll()
                look = time.monotonic() + POLL_PERIOD
            due = max(due + self._period, time.monotonic() - 5 * self._period)
            time.sleep(max(0.0, due - time.monotonic()))
        self._executor.shutdown()
        rclpy.shutdown(context=self._context)

    def _poll(self):
        """Step the button, and answer requests."""
        self._core_wait.look()
        self._executor.spin_once(timeout_sec=0)
        self._button.step()
        while self._pipe.poll():
            request, *given = self._pipe.recv()
            self._pipe.send(getattr(self, f"_{request}")(*given))

    def _take(self):
        """Check all received torques with their publication times."""
        with self._torques.handle:
            while taken := self._torques.handle.take_message(JointState, False):
                message, info = taken
                published = info["source_timestamp"]
                self._judge.torque(stamp_of(message), message.name, message.effort, published)
                self._button.torque(published)

    def _waited(self, begin, end):
        return self._core_wait.between(begin, end)

    def _send(self):
        stamp = time.time_ns()
        position, velocity = self._references.motion(stamp)
        set_stamp(self._message, stamp)
        self._message.position, self._message.velocity = floats(position), floats(velocity)
        self._message.effort = self._efforts(stamp)
        self._publisher.publish(self._message)
        self._judge.sent(stamp, time.time_ns())
        self._sent += 1

    def _efforts(self, stamp):
        """Efforts of a message; empty without a Configuration."""
        if self._configuration is None:
            return []
        efforts = self._references.efforts(self._configuration, stamp)
        return floats(efforts + self._noise * self._random.normal(size=len(efforts)))

    # --- requests ----------------------------------------------------------------------------------

    def _ready(self):
        return True

    def _set_pid(self, process):
        self._core_wait = CoreWait(process)

    def _allow(self, configurations):
        self._judge.allowed = set(configurations)

    def _set_efforts(self, configuration, noise):
        self._configuration, self._noise = configuration, noise

    def _set_pressing(self, often):
        self._button.pressing = often
        self._button.release()

    def _peek(self):
        judge, button = self._judge, self._button
        percentiles = {p: judge.percentile(p) for p in (50, 99, 99.9, 100)}
        return Report(
            dict(judge.counts), judge.findings, button.times, button.waiting, self._sent, percentiles
        )

    def _report(self):
        report = self._peek()
        self._judge.clear()
        self._button.times, self._sent = [], 0
        return report

    def _end(self):
        self._running = False


def _main(domain, rate, pipe):
    _WatchProcess(Domain(*domain), rate, pipe).run()
