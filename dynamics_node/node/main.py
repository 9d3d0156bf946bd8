"""The executable dynamics_node."""

import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from dynamics_node.node.ros_node import DynamicsNode

SPIN_TIMEOUT = 0.2  # s; how long a signal may go unseen


def make_executor():
    """EventsExecutor where rclpy has it: a quarter of the CPU and of the latency of the other."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def spin(node):
    """Run a node until SIGINT, SIGTERM or shutdown; EventsExecutor.spin itself would not notice."""
    executor = make_executor()
    executor.add_node(node)
    try:
        while rclpy.ok():
            executor.spin_once(timeout_sec=SPIN_TIMEOUT)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():
            raise  # else a signal ended the context inside a callback, which could then not publish
    finally:
        executor.remove_node(node)


def run(node):
    """Spin a node to its end, destroy it, end rclpy."""
    try:
        spin(node)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def main(arguments=None):
    """Exit code 0 on SIGINT and SIGTERM, 1 when the start parameters are wrong."""
    rclpy.init(args=arguments)
    try:
        node = DynamicsNode()
    except (ValueError, TypeError) as error:
        print(f"dynamics_node: {error}", file=sys.stderr)
        return 1
    run(node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
