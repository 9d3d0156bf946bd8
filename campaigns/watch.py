"""A process that moves the robot and judges every torque, whatever else goes on: its own pauses harm nothing,
as the middleware tells when a torque was published."""

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

from campaigns.cores import Waiting
from campaigns.judge import Judge
from campaigns.references import References

SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
DISABLED = 0.05  # s for which the node is disabled, time after time
LOOK = 0.005  # s between two looks at what else is to do
BETWEEN = 0.7  # s between two times
MARGIN = 0.15  # s beyond joint_state_timeout: the node looks at the age, then computes and publishes
TIMEOUT = 0.2  # joint_state_timeout, its default


class Report(NamedTuple):
    """What was seen since the last one; stops: (seconds that set_enabled false took, those in which the node
    had a core); waiting: the same of one that is under way."""

    counts: dict
    findings: list
    stops: list
    waiting: tuple
    sent: int
    percentiles: dict


class Watch:
    """The process, from outside."""

    def __init__(self, domain: Domain, rate):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_main, args=(tuple(domain), rate, other), daemon=True)
        self._process.start()
        self._ask("ready")

    def allow(self, *configurations):
        """What torques may be of from now on."""
        self._ask("allow", configurations)

    def feel(self, configuration=None, noise=0.0):
        """What moves the joints and is measured from now on: a Configuration's efforts, with noise of such a
        standard deviation, N m; None: no efforts are reported."""
        self._ask("feel", configuration, noise)

    def look_at(self, process):
        """The number of the node's process, for the time in which it has no core."""
        self._ask("look_at", process)

    def press(self, often):
        """Whether the stop button is pressed again and again."""
        self._ask("press", often)

    def report(self) -> Report:
        """What has happened since the last report."""
        return self._ask("report")

    def peek(self) -> Report:
        """The same, and it stays there for the next."""
        return self._ask("peek")

    def end(self):
        """End the process."""
        self._ask("end")
        self._process.join(10)

    def _ask(self, *request):
        self._pipe.send(request)
        if not self._pipe.poll(120):
            raise RuntimeError("the watching process does not answer")
        return self._pipe.recv()


class Button:
    """set_enabled false and true again; times: (s that a false took, those in which the node had a core)."""

    def __init__(self, node, judge, waited):
        self._client = node.create_client(SetBool, "dynamics_node/set_enabled")
        self._judge, self._waited = judge, waited
        self.pressing = False
        self.times = []
        self.release()

    def release(self):
        """Forget what was under way: the node is another one, or frozen."""
        self._asked = self._future = self._disabled_at = None
        self._next = time.monotonic() + BETWEEN

    @property
    def waiting(self):
        """For how long the answer to a stop has been waited for, as in `times`."""
        if not self._asked:
            return 0.0, 0.0
        now = time.time_ns()
        took = (now - self._asked) * 1e-9
        return took, took - self._waited(self._asked, now)

    def step(self):
        """What is due now."""
        now = time.monotonic()
        if self._future is not None:
            if self._future.done():
                self._answered(now)
        elif self._disabled_at:
            self._enable_when_due(now)
        elif now > self._next and self.pressing and self._client.service_is_ready():
            self._ask(False)
            self._asked = time.time_ns()

    def _answered(self, now):
        self._future = None
        if self._asked:  # it is disabled
            self.times.append(self.waiting)
            self._asked, self._disabled_at = None, time.time_ns()
            self._enable_at = now + DISABLED

    def torque(self, published):
        """Told of every torque."""
        if self._disabled_at and published > self._disabled_at:
            self._judge.after_stop((published - self._disabled_at) * 1e-9)

    def _enable_when_due(self, now):
        """The end of a stop."""
        if now > self._enable_at:
            self._disabled_at = None
            self._next = now + BETWEEN
            self._ask(True)

    def _ask(self, enabled):
        self._future = self._client.call_async(SetBool.Request(data=enabled))


class _Watching:
    """The process, from inside."""

    def __init__(self, domain, rate, pipe):
        self._pipe = pipe
        self._context = Context()
        rclpy.init(args=domain.remappings(), context=self._context, domain_id=domain.number)
        self._references = References()
        self._waits = Waiting("self")
        self._judge = Judge(self._references, TIMEOUT + MARGIN, self._waited)
        pressing = Node("pressing", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(pressing)
        self._button = Button(pressing, self._judge, self._waited)
        node = Node("watch", context=self._context)  # in no executor: what came is taken, time after time
        self._publisher = node.create_publisher(JointState, "joint_states", SENSOR)
        self._torques = node.create_subscription(JointState, "dynamics_node/joint_torques", id, 1000)
        self._message = JointState(name=self._references.names)
        self._period, self._sent = 1 / rate, 0
        self._felt, self._noise = None, 0.0
        self._random = np.random.default_rng(0)
        self._going = True

    def run(self):
        """Until it is told to end."""
        due = look = time.monotonic()
        while self._going:
            self._send()
            self._take()
            if time.monotonic() >= look:
                self._look()
                look = time.monotonic() + LOOK
            due = max(due + self._period, time.monotonic() - 5 * self._period)
            time.sleep(max(0.0, due - time.monotonic()))
        self._executor.shutdown()
        rclpy.shutdown(context=self._context)

    def _look(self):
        """At the button, and whether something is asked."""
        self._waits.look()
        self._executor.spin_once(timeout_sec=0)
        self._button.step()
        while self._pipe.poll():
            request, *given = self._pipe.recv()
            self._pipe.send(getattr(self, f"_{request}")(*given))

    def _take(self):
        """Every torque that has come, with the time of its publication."""
        with self._torques.handle:
            while taken := self._torques.handle.take_message(JointState, False):
                message, info = taken
                published = info["source_timestamp"]
                self._judge.torque(stamp_of(message), message.name, message.effort, published)
                self._button.torque(published)

    def _waited(self, begin, end):
        return self._waits.between(begin, end)

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
        """Of a message; none where nothing is felt."""
        if self._felt is None:
            return []
        efforts = self._references.efforts(self._felt, stamp)
        return floats(efforts + self._noise * self._random.normal(size=len(efforts)))

    # --- what can be asked -------------------------------------------------------------------------

    def _ready(self):
        return True

    def _look_at(self, process):
        self._waits = Waiting(process)

    def _allow(self, configurations):
        self._judge.allowed = set(configurations)

    def _feel(self, configuration, noise):
        self._felt, self._noise = configuration, noise

    def _press(self, often):
        self._button.pressing = often
        self._button.release()

    def _peek(self):
        judge, button = self._judge, self._button
        percentiles = {p: judge.percentile(p) for p in (50, 99, 99.9, 100)}
        return Report(
            dict(judge.counts), judge.findings, button.times, button.waiting, self._sent, percentiles
        )

    def _report(self):
        found = self._peek()
        self._judge.clear()
        self._button.times, self._sent = [], 0
        return found

    def _end(self):
        self._going = False


def _main(domain, rate, pipe):
    _Watching(Domain(*domain), rate, pipe).run()
