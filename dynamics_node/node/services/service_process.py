"""The process that answers the computing services.

rclpy converts a whole request to Python objects at once: 100 000 points take more than a second, during which
the node could compute no torque. So a separate process answers these services with the state of the node,
which it requests for each call. The process is a worker (building/worker.py).
"""

import contextlib
import os
import pickle
import socket
import threading
import time
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NamedTuple

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from dynamics_node.codegen import lost as lost_device
from dynamics_node.node.building.worker import SERVER
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.served_state import Snapshot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.bounded_executor import REQUESTS
from dynamics_node.node.ros.running import Guard, end, make_executor
from dynamics_node.node.services.services import COMPUTING, Services
from dynamics_node.process import Stop

SHARE = 0.2  # s of processor time in which a turn takes the requests of a service
SPIN_TIMEOUT = 1.0  # s; the process wakes for requests, signals and the end of the node
REPLY_TIMEOUT = 5.0  # s for a reply of the node
EXIT_TIMEOUT = 2.0  # s for the process to end
EXIT_POLL = 0.005  # s


class Start(NamedTuple):
    """Start data of the process. names: resolved names of COMPUTING; arguments: for rclpy."""

    names: dict[str, str]
    node_name: str
    namespace: str
    arguments: list[str]


class Reply(NamedTuple):
    """Reply to a query of the process.

    number: of the query; version: of robot (pickled) and settings, which are None if the process has this
    version; snapshot: None without a robot.
    """

    number: int
    version: int
    robot: bytes | None
    settings: Settings | None
    snapshot: Snapshot | None


class ServiceProcess:
    """The node's side: starts the process, answers its queries, and restarts it if it ends.

    lost_device: reason for computing without the GPU, "" while the GPU works.
    """

    def __init__(self, start: Start, wake):
        """wake(): called from another thread on every query. Raises OSError."""
        self._start_request = start
        self._wake = wake
        self._sent = (None, None)  # robot and settings of the current version
        self._version = 0
        self._start()

    def _start(self):
        self._query: tuple[int, int] | None = None
        self._replies: SimpleQueue[bytes] = SimpleQueue()
        self.lost_device = ""
        self._socket = SERVER.start()
        threading.Thread(target=self._converse, args=(self._socket, self._replies), daemon=True).start()

    def _converse(self, ours, replies):
        """Pass queries to the node, and replies back, in a thread: replies may have megabytes."""
        with contextlib.suppress(Exception), Connection(os.dup(ours.fileno())) as connection:
            connection.send_bytes(pickle.dumps(self._start_request))
            while True:
                number, version, lost = connection.recv_bytes().split(b" ", 2)
                self.lost_device = lost.decode(errors="replace")
                self._query = int(number), int(version)
                self._wake()
                connection.send_bytes(replies.get())
        _hang_up(ours)  # after an error here, the process ends and is restarted

    def step(self, core: Core | None):
        """Answer a pending query."""
        if self._query is not None:
            (number, version), self._query = self._query, None
            self._replies.put(pickle.dumps(self._reply(number, version, core)))

    def _reply(self, number, version, core):
        if core is None:
            return Reply(number, self._version, None, None, None)
        robot, settings = self._sent
        if core.unloaded is not robot or core.settings is not settings:
            self._sent = core.unloaded, core.settings
            self._version += 1
        if version == self._version:
            return Reply(number, version, None, None, core.snapshot())
        robot, settings = pickle.dumps(core.unloaded), core.settings.without_description()
        return Reply(number, self._version, robot, settings, core.snapshot())

    def restart_if_ended(self) -> str:
        """Restart the process if it has ended; return the reason, "" while it runs. Raises OSError."""
        if SERVER.pid is not None:
            return ""
        code = SERVER.exit_code
        self._leave()
        self._start()
        return f"the process of the services ended with code {code} and was restarted"

    def close(self):
        """End the process and wait for its end: participants that end together may hang in Fast DDS."""
        self._leave()
        end = time.monotonic() + EXIT_TIMEOUT
        while SERVER.pid is not None and time.monotonic() < end:
            time.sleep(EXIT_POLL)
        SERVER.end()

    def _leave(self):
        _hang_up(self._socket)
        self._replies.put(b"")


def _hang_up(connected):
    """Shut a socket down: both sides read an end. Closing it would not wake a thread that reads it."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


class Follower:
    """The process side: a copy of the Core of the node, updated by each query."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._core: Core | None = None
        self._number = self._version = 0
        self._lost = ""

    def core(self) -> Core | None:
        """The updated Core. Raises BadMessage if the node does not answer."""
        self._number += 1
        self._lost = str(lost_device() or "")
        self._connection.send_bytes(f"{self._number} {self._version} {self._lost}".encode())
        until = time.monotonic() + REPLY_TIMEOUT
        while self._connection.poll(max(0.0, until - time.monotonic())):
            reply = pickle.loads(self._connection.recv_bytes())
            self._follow(reply)
            if reply.number == self._number:  # not of an abandoned query
                return self._core
        raise BadMessage(f"the node has not replied for {REPLY_TIMEOUT:g} s")

    def report_lost_device(self):
        """Report a lost device to the node with an extra query. Raises BadMessage as `core`."""
        if str(lost_device() or "") != self._lost:
            self.core()

    def ended(self) -> bool:
        """Whether the node has ended. Replies to abandoned queries are applied."""
        try:
            while self._connection.poll():
                self._follow(pickle.loads(self._connection.recv_bytes()))
        except (OSError, EOFError):
            return True
        return False

    def _follow(self, reply):
        if reply.snapshot is None:
            self._core = None
            return
        if reply.robot is not None:
            self._version = -1  # until it is loaded: after an error the node sends it again
            self._core = Core(pickle.loads(reply.robot), reply.settings)
            self._version = reply.version
        self._core.follow(reply.snapshot)


def work(connected: socket.socket):
    """Answer services until a signal or the end of the node, which sends a pickled Start first."""
    connection = Connection(connected.detach())
    try:
        start: Start = pickle.loads(connection.recv_bytes())
    except EOFError:
        return
    stop = Stop()
    rclpy.init(args=start.arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(
        start.node_name,
        namespace=start.namespace,
        use_global_arguments=False,
        start_parameter_services=False,
        enable_rosout=False,
    )
    follower = Follower(connection)
    services = Services(follower.core)
    for name, resolved in start.names.items():
        kind = COMPUTING[name]
        node.create_service(kind, resolved, services.callback(kind), qos_profile=REQUESTS)
    guard = Guard(node.get_logger().error)
    executor = make_executor(guard, SHARE)
    executor.add_node(node)
    stop.wake(executor.wake, connection.fileno())
    while not (stop.requested or follower.ended()):
        guard.call("services", executor.spin_once, timeout_sec=SPIN_TIMEOUT)
        guard.call("services", follower.report_lost_device)
    executor.remove_node(node)
    end(node)
