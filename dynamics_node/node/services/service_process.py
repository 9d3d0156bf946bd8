"""The process that answers the computing services.

rclpy makes Python objects of a whole request at once: a second and more for 100 000 points, in which no
torque could be computed. So these services are answered beside the node, by what the node tells of its robot
when it is asked. The process is a fork of the build server (building/build_server.py), which has imported the
library.
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
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from dynamics_node.codegen import lost as lost_device
from dynamics_node.node.building.build_process import file_without_name
from dynamics_node.node.building.build_server import LONGEST_WORD, SERVER, SERVING
from dynamics_node.node.core.dynamics_core import Core, Snapshot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.running import Guard, end
from dynamics_node.node.services.services import COMPUTING, Services
from dynamics_node.process import Stop

NICENESS = 5  # torques come first
SPIN_TIMEOUT = 0.1  # s; how long the end of the node, or a signal, may go unseen
PATIENCE = 5.0  # s for an answer of the node
FAREWELL = 2.0  # s for the process to end


class Start(NamedTuple):
    """What the process has to know at once. names: of COMPUTING, resolved; arguments: for rclpy; environment:
    of the node."""

    names: dict[str, str]
    node_name: str
    namespace: str
    arguments: list[str]
    environment: dict[str, str]


class Told(NamedTuple):
    """The answer to a question.

    number: of the question; version: of robot (pickled) and settings, which are None where the asker has
    them; snapshot: None while there is no robot.
    """

    number: int
    version: int
    robot: bytes | None
    settings: Settings | None
    snapshot: Snapshot | None


class ServiceProcess:
    """The node's side: starts the process, answers its questions, starts it again when it has ended.

    lost_device: why the process goes on without its GPU, "" while it does not.
    """

    def __init__(self, start: Start, wake):
        """wake(): called from another thread when there is a question."""
        self._beginning = start
        self._wake = wake
        self._told = (None, None)  # robot and settings of the version
        self._version = 0
        self._end: socket.socket | None = None  # of the process, see BuildServer.submit
        self._start()

    def _start(self):
        self._question: tuple[int, int] | None = None
        self._publisher: SimpleQueue[bytes] = SimpleQueue()
        self.lost_device = ""
        self._socket, theirs = socket.socketpair()
        with theirs, file_without_name() as request:
            pickle.dump(self._beginning, request)
            request.seek(0)
            self._end = SERVER.submit(request.fileno(), theirs.fileno(), SERVING)
        threading.Thread(target=self._converse, args=(self._socket, self._publisher), daemon=True).start()

    def _converse(self, ours, answers):
        """Pass questions to the node, and answers back: they may be megabytes, and nobody waits for that."""
        with contextlib.suppress(Exception), Connection(os.dup(ours.fileno())) as connection:
            while True:
                number, version, lost = connection.recv_bytes().split(b" ", 2)
                self.lost_device = lost.decode(errors="replace")
                self._question = int(number), int(version)
                self._wake()
                connection.send_bytes(answers.get())
        _hang_up(ours)  # after an error of ours the process ends and is started again

    def step(self, core: Core | None):
        """Answer a question, if there is one."""
        if self._question is not None:
            (number, version), self._question = self._question, None
            self._publisher.put(pickle.dumps(self._tell(number, version, core)))

    def _tell(self, number, version, core):
        if core is None:
            return Told(number, self._version, None, None, None)
        robot, settings = self._told
        if core.unloaded is not robot or core.settings is not settings:
            self._told = core.unloaded, core.settings
            self._version += 1
        if version == self._version:
            return Told(number, version, None, None, core.snapshot())
        robot, settings = pickle.dumps(core.unloaded), core.settings.without_description()
        return Told(number, self._version, robot, settings, core.snapshot())

    def look_after(self) -> str:
        """Start the process again when it has ended: why it is, "" while it runs. Raises OSError."""
        try:
            word = "" if self._end is None else self._end.recv(LONGEST_WORD).decode()
        except BlockingIOError:
            return ""
        self._leave()
        self._start()
        why = f"with code {word}" if word.removeprefix("-").isdigit() else word or "with the build server"
        return f"the process of the services ended {why}: started again"

    def close(self):
        """End the process, and wait for that: participants that end in one moment may hang in Fast DDS."""
        end, self._end = self._end, None
        self._leave()
        if end is not None:
            with end, contextlib.suppress(OSError):  # it is ended when `end` is closed
                end.settimeout(FAREWELL)
                end.recv(LONGEST_WORD)

    def _leave(self):
        _hang_up(self._socket)
        self._publisher.put(b"")
        self._socket.close()
        if self._end is not None:
            self._end.close()
            self._end = None


def _hang_up(connected):
    """Both sides read an end; to close a socket that a thread is reading would not wake it."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


class Follower:
    """The other side: the Core of the node, as of the last question."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._core: Core | None = None
        self._number = self._version = 0
        self._lost = ""

    def core(self) -> Core | None:
        """Brought up to date. Raises BadMessage when the node does not answer."""
        self._number += 1
        self._lost = str(lost_device() or "")
        self._connection.send_bytes(f"{self._number} {self._version} {self._lost}".encode())
        until = time.monotonic() + PATIENCE
        while self._connection.poll(max(0.0, until - time.monotonic())):
            told = pickle.loads(self._connection.recv_bytes())
            self._follow(told)
            if told.number == self._number:  # not of a question that was given up
                return self._core
        raise BadMessage(f"the node has not answered for {PATIENCE:g} s")

    def tell(self):
        """With a question more tell the node when the device is lost. Raises BadMessage as `core`."""
        if str(lost_device() or "") != self._lost:
            self.core()

    def ended(self) -> bool:
        """Whether the node has gone. What comes unasked answers a question that was given up."""
        try:
            while self._connection.poll():
                self._follow(pickle.loads(self._connection.recv_bytes()))
        except (OSError, EOFError):
            return True
        return False

    def _follow(self, told):
        if told.snapshot is None:
            self._core = None
            return
        if told.robot is not None:
            self._version = -1  # until it is here: what fails is sent again
            self._core = Core(pickle.loads(told.robot), told.settings)
            self._version = told.version
        self._core.follow(told.snapshot)


def work(request: int, connection: int, aside: bool):
    """Answer until the node or somebody else ends it. request: descriptor of a file with the pickled Start;
    connection: of the socket to the node."""
    stop = Stop()
    os.nice(NICENESS)
    with os.fdopen(request, "rb") as file:
        start: Start = pickle.load(file)
    os.environ.clear()
    os.environ.update(start.environment)
    rclpy.init(args=start.arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(
        start.node_name,
        namespace=start.namespace,
        use_global_arguments=False,
        start_parameter_services=False,
        enable_rosout=False,
    )
    follower = Follower(Connection(connection))
    services = Services(follower.core)
    for name, resolved in start.names.items():
        kind = COMPUTING[name]
        node.create_service(kind, resolved, services.callback(kind))
    _serve(node, stop, follower)


def _serve(node, stop, follower):
    """Spin until somebody asks to stop or the node has gone."""
    guard = Guard(node.get_logger().error)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not (stop.requested or follower.ended()):
        guard.call("services", executor.spin_once, timeout_sec=SPIN_TIMEOUT)
        guard.call("services", follower.tell)
    executor.remove_node(node)
    end(node)
