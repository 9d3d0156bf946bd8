"""Running a node: signals, executor, shutdown. Exceptions of callbacks do not end the node."""

import gc
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from dynamics_node.node.ros.bounded_executor import SHARE, TurnExecutor
from dynamics_node.process import Stop
from dynamics_node.text import one_line

THROTTLE = 2.0  # s between log lines of one kind


class Throttle:
    """Limits log lines of one kind to one per THROTTLE seconds. The throttle of rclpy inspects the stack in
    every call, which takes 200 us, too long for a flood of messages."""

    def __init__(self):
        self._last: dict[str, float] = {}

    def due(self, kind: str) -> bool:
        now = monotonic()
        if now - self._last.get(kind, -THROTTLE) < THROTTLE:
            return False
        self._last[kind] = now
        return True


class Guard:
    """Logs exceptions with the name of the action, and continues."""

    def __init__(self, log: Callable[[str], object]):
        self._log = log
        self._throttle = Throttle()

    def report(self, what: str, error: Exception):
        """Log an unexpected error, throttled."""
        if not self._throttle.due(what):
            return
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = "".join(f" (line {f.lineno} of {Path(f.filename).name})" for f in frame)
        self._log(one_line(f"{what}: {type(error).__name__}: {error}") + place)

    def call(self, what: str, function, *arguments, **options):
        """Return function(...), or None after an error, which is logged."""
        try:
            return function(*arguments, **options)
        except ExternalShutdownException:
            raise
        except Exception as error:
            self.report(what, error)
            return None


SPIN_TIMEOUT = 0.2  # s; longest delay of a signal
END_TIMEOUT = 5  # s; limit for the shutdown of rclpy


def start_rclpy(arguments=None, stop: Stop | None = None) -> Stop:
    """Initialize rclpy without its signal handlers; returns the Stop that replaces them."""
    stop = stop or Stop()
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    return stop


def make_executor(guard: Guard, share: float = SHARE):
    """A TurnExecutor with this share, or a SingleThreadedExecutor if the internals of rclpy differ."""
    try:
        executor = TurnExecutor(guard.report, share=share)
        executor.spin_once(timeout_sec=0)
    except Exception as error:
        guard.report("TurnExecutor (falling back to SingleThreadedExecutor)", error)
        return SingleThreadedExecutor()
    return executor


def run(node, stop):
    """Spin a node until a stop request, then destroy it and shut down rclpy.

    The method `after_spin` of the node is called after every turn; it returns True if work remains. Errors go
    to the method `problem` of the node, or to its log.
    """
    gc.collect()
    gc.freeze()  # exclude imports from collections, which would take 30 ms each
    guard = Guard(getattr(node, "problem", node.get_logger().error))
    executor = make_executor(guard)
    executor.add_node(node)
    after_spin = getattr(node, "after_spin", lambda: False)
    busy = False
    try:
        while not stop.requested and rclpy.ok():
            guard.call("turn", executor.spin_once, timeout_sec=0 if busy else SPIN_TIMEOUT)
            busy = guard.call("output", after_spin)
    except ExternalShutdownException:
        pass
    finally:
        executor.remove_node(node)
        end(node)


def end(node):
    """Destroy a node and shut down rclpy; SIGALRM ends the process after END_TIMEOUT.

    Fast DDS (2.14) may hang if another participant leaves while ours is destroyed, for example at the end of
    a launch. It loops in C++, where Python calls no signal handlers (1 of 100 nodes that ended together).
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(END_TIMEOUT)
    node.destroy_node()
    rclpy.try_shutdown()
    signal.alarm(0)
