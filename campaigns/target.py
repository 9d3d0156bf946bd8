"""The node under attack: the executable in its own process, observed and attacked from others."""

import contextlib
import os
import resource
import signal
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from domains import fresh_domain
from rig import LATCHED, Client, NodeProcess
from std_msgs.msg import String

from campaigns.references import Configuration, descriptions
from campaigns.watch import Watch

RATE = 200.0  # Hz, of the joint states
MEMORY = 6 << 30  # bytes of address space, to protect the memory of the machine
SERVE_TIMEOUT = 60.0  # s, from the start or an attack to a right torque
MARK = "DYNAMICS_CAMPAIGN"  # environment variable that marks the processes of the node


class Start(NamedTuple):
    """Start options of the node. environment: additional variables; robot: described on the topic, or ''."""

    parameters: dict = {}
    environment: dict = {}
    robot: str = "panda"
    arguments: tuple = ()


class Dead(Exception):
    """The node has ended unexpectedly."""


class Mute(Exception):
    """The node runs, but publishes no right torque."""


class Target:
    """A node that can be restarted, its client, and the Watch. folder: for files."""

    def __init__(self, rate=RATE):
        self._folder = tempfile.TemporaryDirectory(prefix="dynamics_campaign_")
        self.folder = Path(self._folder.name)
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.domain = fresh_domain()
        self.watch = Watch(self.domain, rate)
        self.client = Client(self.domain)
        for listener in list(self.client.node.subscriptions):
            self.client.node.destroy_subscription(listener)  # the Watch has them
        self.process = None
        self.robot = ""
        self._publishers = {}

    # --- life ---------------------------------------------------------------------------------------

    def start(self, start):
        """Start a node; the old one has ended."""
        self._mark = f"{self.domain.namespace}_{time.monotonic_ns()}"
        self.robot = start.robot
        self._forget_description()
        if start.robot:
            rests = start.parameters.get("on_stale") == "gravity"
            self.watch.allow(*(Configuration(start.robot, at_rest=at_rest) for at_rest in {False, rests}))
            self.describe(descriptions()[start.robot])
        else:
            self.watch.allow()
        parameters = {"effort_limits": "none", **start.parameters}
        environment = {"XDG_CACHE_HOME": str(self.cache), MARK: self._mark, **start.environment}
        self.process = NodeProcess(self.domain, parameters, "", start.arguments, environment)
        self.watch.set_pid(self.pid)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))

    def stop(self, number=signal.SIGINT):
        """Stop the node. Returns its exit code, None if it did not end, and names of remaining processes."""
        self.watch.set_pressing(False)
        code = self.process.process.poll()
        if code is None:
            self.process.process.send_signal(number)
            with contextlib.suppress(Exception):
                code = self.process.process.wait(10)
        if code is None:
            self.process.process.kill()
            self.process.process.wait()
        left = self._left()
        time.sleep(0.1)  # for its last torques in transit
        self.watch.allow()
        return code, left

    def close(self):
        """End everything."""
        self.watch.end()
        self.client.close()
        self._folder.cleanup()

    @property
    def pid(self):
        return self.process.process.pid

    @property
    def alive(self):
        return self.process.process.poll() is None

    def processes(self):
        """{process id: name} of the node and its children."""
        mark, names = f"{MARK}={self._mark}".encode(), {}
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                number = int(folder.name)
                if mark in (folder / "environ").read_bytes():
                    names[number] = (folder / "comm").read_text().strip()
        return names

    def children(self):
        """{process id: name} of the children."""
        return {number: name for number, name in self.processes().items() if number != self.pid}

    def _left(self):
        """Kill processes that remain 5 s after the end of the node; returns their names."""
        deadline = time.monotonic() + 5
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for number in left:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        return sorted(left.values())

    # --- use ----------------------------------------------------------------------------------------

    def spin(self, seconds):
        """Spin for some time. Raises Dead."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self.alive:
                raise Dead
            self.client.spin(min(left, 0.1))

    def until(self, condition, timeout, what):
        """Wait for a condition. Raises Dead, or Mute after the timeout."""
        end = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > end:
                raise Mute(f"{what}: not within {timeout:g} s")
            self.spin(0.05)
        return value

    def serves(self, configuration=None, timeout=SERVE_TIMEOUT):
        """Wait for right torques, of one configuration or of any allowed one."""
        key = configuration or "right"
        before = self.watch.peek().counts.get(key, 0)
        self.until(
            lambda: self.watch.peek().counts.get(key, 0) > before + 3, timeout, f"right torques of {key}"
        )

    def describe(self, text):
        """Publish a robot description."""
        self.client.description.publish(String(data=text))

    def _forget_description(self):
        """Recreate the latched publisher, so that the next node does not receive the old description."""
        self.client.node.destroy_publisher(self.client.description)
        self.client.description = self.client.node.create_publisher(String, "robot_description", LATCHED)

    def take(self, robot, timeout=SERVE_TIMEOUT):
        """Change the robot and wait until it is served."""
        self.watch.allow(Configuration(self.robot), Configuration(robot))
        self.describe(descriptions()[robot])
        self.serves(Configuration(robot), timeout)
        self.robot = robot
        self.watch.allow(Configuration(robot))

    def publisher(self, kind, topic, qos=10):
        """A publisher with a subscription of the node."""
        if topic not in self._publishers:
            self._publishers[topic] = self.client.node.create_publisher(kind, topic, qos)
        publisher = self._publishers[topic]
        self.until(publisher.get_subscription_count, 60, f"a subscription of {topic}")
        return publisher

    def ask(self, kind, name, request, timeout=60.0):
        """Response of a service of the node, None after the timeout. Raises Dead."""
        client = self.client.node.create_client(kind, f"dynamics_node/{name}")
        try:
            self.until(client.service_is_ready, timeout, name)
            future = client.call_async(request)
            self.until(future.done, timeout, name)
            return future.result()
        except Mute:
            return None
        finally:
            self.client.node.destroy_client(client)

    def set(self, **values):
        """Set parameters at once; True, False, or None without an answer. Raises Dead."""
        try:
            return self.client.set_parameters(**values)[0]
        except AssertionError:
            if not self.alive:
                raise Dead from None
            return None
