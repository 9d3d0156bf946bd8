"""The node under attack: the executable in a process of its own, watched and attacked from others."""

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
MEMORY = 6 << 30  # bytes of address space: what would take the machine's memory is an error instead
SERVED_WITHIN = 60.0  # s, from the start or an attack to a right torque
MARK = "DYNAMICS_CAMPAIGN"  # environment variable by which the node's processes are known


class Start(NamedTuple):
    """How the node is started. environment: variables beside ours; robot: described on the topic, or ''."""

    parameters: dict = {}
    environment: dict = {}
    robot: str = "panda"
    arguments: tuple = ()


class Dead(Exception):
    """The node has ended by itself."""


class Mute(Exception):
    """The node lives, but no right torque comes."""


class Target:
    """A node that can be started again and again, its client, and the Watch. folder: for files."""

    def __init__(self, rate=RATE):
        self._folder = tempfile.TemporaryDirectory(prefix="dynamics_campaign_")
        self.folder = Path(self._folder.name)
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.domain = fresh_domain()
        self.watch = Watch(self.domain, rate)
        self.client = Client(self.domain)
        for listener in list(self.client.node.subscriptions):
            self.client.node.destroy_subscription(listener)  # the watch listens
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
            holds = start.parameters.get("on_stale") == "gravity"
            self.watch.allow(*(Configuration(start.robot, held=held) for held in {False, holds}))
            self.describe(descriptions()[start.robot])
        else:
            self.watch.allow()
        parameters = {"effort_limits": "none", **start.parameters}
        environment = {"XDG_CACHE_HOME": str(self.cache), MARK: self._mark, **start.environment}
        self.process = NodeProcess(self.domain, parameters, "", start.arguments, environment)
        self.watch.look_at(self.pid)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))

    def stop(self, number=signal.SIGINT):
        """End the node. Returns its exit code, None when it did not end; and names of processes it leaves."""
        self.watch.press(False)
        code = self.process.process.poll()
        if code is None:
            self.process.process.send_signal(number)
            with contextlib.suppress(Exception):
                code = self.process.process.wait(10)
        if code is None:
            self.process.process.kill()
            self.process.process.wait()
        left = self._left()
        time.sleep(0.1)  # its last torques are on their way
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
        """{process number: name} of the node and all that it has started."""
        mark, found = f"{MARK}={self._mark}".encode(), {}
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                number = int(folder.name)
                if mark in (folder / "environ").read_bytes():
                    found[number] = (folder / "comm").read_text().strip()
        return found

    def children(self):
        """The same without the node."""
        return {number: name for number, name in self.processes().items() if number != self.pid}

    def _left(self):
        """Names of the processes that are there seconds after the node's end; they are ended then."""
        deadline = time.monotonic() + 5
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for number in left:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        return sorted(left.values())

    # --- use ----------------------------------------------------------------------------------------

    def spin(self, seconds):
        """Let time pass. Raises Dead."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self.alive:
                raise Dead
            self.client.spin(min(left, 0.1))

    def until(self, condition, timeout, what):
        """Wait for a condition. Raises Dead, or Mute when it does not come."""
        end = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > end:
                raise Mute(f"{what}: not within {timeout:g} s")
            self.spin(0.05)
        return value

    def serves(self, configuration=None, timeout=SERVED_WITHIN):
        """Wait for right torques, of one configuration or of any that is allowed."""
        key = configuration or "right"
        before = self.watch.peek().counts.get(key, 0)
        self.until(
            lambda: self.watch.peek().counts.get(key, 0) > before + 3, timeout, f"right torques of {key}"
        )

    def describe(self, text):
        """Publish a robot description."""
        self.client.description.publish(String(data=text))

    def _forget_description(self):
        """The next node shall not be given what the last one was."""
        self.client.node.destroy_publisher(self.client.description)
        self.client.description = self.client.node.create_publisher(String, "robot_description", LATCHED)

    def take(self, robot, timeout=SERVED_WITHIN):
        """Another robot, by its name; served when this returns."""
        self.watch.allow(Configuration(self.robot), Configuration(robot))
        self.describe(descriptions()[robot])
        self.serves(Configuration(robot), timeout)
        self.robot = robot
        self.watch.allow(Configuration(robot))

    def publisher(self, kind, topic, qos=10):
        """A publisher that the node listens to."""
        if topic not in self._publishers:
            self._publishers[topic] = self.client.node.create_publisher(kind, topic, qos)
        found = self._publishers[topic]
        self.until(found.get_subscription_count, 60, f"a subscription of {topic}")
        return found

    def ask(self, kind, name, request, timeout=60.0):
        """Response of a service of the node, None when there is none in time. Raises Dead."""
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
