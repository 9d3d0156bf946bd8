"""The executable dynamics_node."""

import sys

from dynamics_node.node.stop import Stop
from dynamics_node.node.text import shown


def main(arguments=None):
    """Exit code 0 on SIGINT and SIGTERM; 1, and one line that says why, when the node cannot start."""
    stop = Stop()  # from here on, also while the rest is imported
    from dynamics_node.node.ros_node import DynamicsNode
    from dynamics_node.node.running import run, start_rclpy

    if stop.asked:
        return 0
    try:
        start_rclpy(arguments, stop)
        node = DynamicsNode()
    except Exception as error:  # of parameters, arguments or the middleware
        stop.finish()
        return refused(error)
    run(node, stop)
    stop.finish()
    return 0


def refused(error):
    """One line on what is wrong with the start, without rcl's places in its source; the exit code."""
    import rclpy

    print(f"dynamics_node: {shown(str(error).partition(', at /')[0])}", file=sys.stderr)
    rclpy.try_shutdown()
    return 1


if __name__ == "__main__":
    sys.exit(main())
