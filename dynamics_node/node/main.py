"""The executable dynamics_node."""

import sys
from contextlib import suppress
from importlib import import_module

from dynamics_node.node.building.build_server import SERVER
from dynamics_node.process import Stop, one_blas_thread
from dynamics_node.text import one_line


def main(arguments=None):
    """Exit code 0 on SIGINT and SIGTERM; 1, and one line that says why, when the node cannot start."""
    return serve("dynamics_node", "dynamics_node.node.ros_node", "DynamicsNode", arguments)


def serve(executable, module, node, arguments=None, modules=()):
    """Run a node, a class of a module, until it is asked to stop; the exit code, as of `main`. modules: those
    that its builds need beside build_job."""
    one_blas_thread()
    stop = Stop()  # from here on, also while the rest is imported
    with suppress(OSError):  # what a build lacks is said when there is one
        SERVER.fork(*modules)  # before ROS is imported, which brings threads
    kind = getattr(import_module(module), node)
    from dynamics_node.node.ros.running import run, start_rclpy

    if stop.requested:
        return 0
    try:
        start_rclpy(arguments, stop)
        made = kind()
    except Exception as error:  # of parameters, arguments or the middleware
        stop.finish()
        return _refused(executable, error)
    run(made, stop)
    stop.finish()
    return 0


def _refused(executable, error):
    """One line on what is wrong with the start, without rcl's places in its source; the exit code."""
    import rclpy

    print(f"{executable}: {one_line(str(error).partition(', at /')[0])}", file=sys.stderr)
    rclpy.try_shutdown()
    return 1


if __name__ == "__main__":
    sys.exit(main())
