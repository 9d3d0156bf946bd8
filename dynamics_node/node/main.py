"""The executable dynamics_node."""

import gc
import signal
import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from dynamics_node.node.ros_node import DynamicsNode

SPIN_TIMEOUT = 0.2  # s; how long a signal may go unseen
END_TIMEOUT = 5  # s; how long rclpy may take to end


class Stop:
    """`asked` becomes True on SIGINT and SIGTERM.

    rclpy's own handlers end the context from another thread, under the feet of a callback that is
    about to publish; here the callback ends first.
    """

    def __init__(self):
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number, frame):
        self.asked = True


def start_rclpy(arguments=None) -> Stop:
    """rclpy.init without its signal handlers; the Stop that stands in for them."""
    stop = Stop()
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    return stop


def make_executor():
    """EventsExecutor where rclpy has it: a quarter of the CPU and of the latency of the other."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def run(node, stop):
    """Spin a node until it is asked to stop, destroy it, end rclpy."""
    gc.collect()
    gc.freeze()  # what was imported stays: to look through it again and again takes 30 ms each time
    executor = make_executor()
    executor.add_node(node)
    try:
        while not stop.asked and rclpy.ok():
            executor.spin_once(timeout_sec=SPIN_TIMEOUT)
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


def main(arguments=None):
    """Exit code 0 on SIGINT and SIGTERM, 1 when the start parameters are wrong."""
    stop = start_rclpy(arguments)
    try:
        node = DynamicsNode()
    except (ValueError, TypeError) as error:
        print(f"dynamics_node: {error}", file=sys.stderr)
        rclpy.try_shutdown()
        return 1
    run(node, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
