"""How a node runs: signals, executor, end."""

import gc
import signal

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from dynamics_node.node.building.stop import Stop
from dynamics_node.node.ros.bounded_executor import TurnExecutor
from dynamics_node.node.ros.guard import Guard

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
        while not stop.asked and rclpy.ok():
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
