"""How a node runs: signals, executor, end. No exception of a callback ends it."""

import gc
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from dynamics_node.node.ros.bounded_executor import TurnExecutor
from dynamics_node.process import Stop
from dynamics_node.text import one_line

THROTTLE = 2.0  # s, between log lines of one kind


class Throttle:
    """Whether a log line of a kind is due: once in THROTTLE seconds. rclpy's own looks at the stack of every
    call, 200 us, which a flood of messages would make much of."""

    def __init__(self):
        self._last: dict[str, float] = {}

    def due(self, kind: str) -> bool:
        now = monotonic()
        if now - self._last.get(kind, -THROTTLE) < THROTTLE:
            return False
        self._last[kind] = now
        return True


class Guard:
    """Reports what goes wrong, by the name of what was being done, and lets the rest go on."""

    def __init__(self, log: Callable[[str], object]):
        self._log = log
        self._throttle = Throttle()

    def report(self, what: str, error: Exception):
        """Log an error that nobody has foreseen."""
        if not self._throttle.due(what):
            return
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = "".join(f" (line {f.lineno} of {Path(f.filename).name})" for f in frame)
        self._log(one_line(f"{what}: {type(error).__name__}: {error}") + place)

    def call(self, what: str, function, *arguments, **options):
        """What function(...) returns; None after an error, which is reported."""
        try:
            return function(*arguments, **options)
        except ExternalShutdownException:
            raise
        except Exception as error:
            self.report(what, error)
            return None


SPIN_TIMEOUT = 0.2  # s; how long a signal may go unseen
END_TIMEOUT = 5  # s; how long rclpy may take to end


def start_rclpy(arguments=None, stop: Stop | None = None) -> Stop:
    """rclpy.init without its signal handlers; the Stop that stands in for them, a new one unless given."""
    stop = stop or Stop()
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    return stop


def make_executor(guard: Guard):
    """A TurnExecutor, or rclpy's own where its inner parts are not those that it needs."""
    try:
        executor = TurnExecutor(guard.report)
        executor.spin_once(timeout_sec=0)
    except Exception as error:
        guard.report("executor, SingleThreadedExecutor in its place", error)
        return SingleThreadedExecutor()
    return executor


def run(node, stop):
    """Spin a node until it is asked to stop, destroy it, end rclpy.

    A method `after_spin` of the node is called after every turn; it returns True when it has more to do. A
    method `problem` gets errors, else they are logged.
    """
    gc.collect()
    gc.freeze()  # what was imported stays: to look through it again and again takes 30 ms each time
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
    """Destroy a node and end rclpy; a SIGALRM ends a process in which that takes longer than END_TIMEOUT.

    Fast DDS (2.14) may never come back: when another participant leaves in the very moment in which ours is
    destroyed, as when a launch ends all its nodes, it goes round forever in C++, where no handler of
    Python's is called (seen in 1 of 100 nodes ended together).
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(END_TIMEOUT)
    node.destroy_node()
    rclpy.try_shutdown()
    signal.alarm(0)
