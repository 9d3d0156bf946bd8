"""The executable dynamics_node."""

import gc
import signal
import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from dynamics_node.node.ros_node import DynamicsNode

SPIN_TIMEOUT = 0.2  # s; how long a signal may go unseen


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
        node.destroy_node()
        rclpy.try_shutdown()


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
