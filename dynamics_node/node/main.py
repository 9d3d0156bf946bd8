"""The executable dynamics_node."""

import sys
from contextlib import suppress
from importlib import import_module

from dynamics_node.node.building import worker
from dynamics_node.node.usage import help_requested, usage
from dynamics_node.process import Stop, one_blas_thread
from dynamics_node.text import one_line

IMPORTANT = (
    "robot_description_file", "joints", "floating_base", "problem", "backend", "state_source",
    "velocity_source", "joint_state_timeout", "on_stale", "rate",
)  # fmt: skip


def main(arguments=None):
    """Run dynamics_node. Exit code: 0 after --help, on SIGINT and SIGTERM; 1, with one line on stderr, if it
    cannot start."""
    if help_requested(arguments):
        from dynamics_node.node.core.settings import PARAMETERS

        print(usage("dynamics_node", PARAMETERS, IMPORTANT, "dynamics.yaml"))
        return 0
    module, workers = "dynamics_node.node.ros_node", worker.WORKERS
    return serve("dynamics_node", module, "DynamicsNode", arguments, workers, worker.BUILD)


def serve(executable, module, node, arguments, workers, build):
    """Run a node, a class of a module, until a stop request; return the exit code of `main`. build: the
    module that its build jobs need."""
    one_blas_thread()
    stop = Stop()  # from here on, including the imports below
    with suppress(OSError):  # the first build reports a missing process
        worker.fork(workers, [build])  # before the import of ROS, which starts threads
    kind = getattr(import_module(module), node)
    from dynamics_node.node.ros.running import run, start_rclpy

    if stop.requested:
        return 0
    try:
        start_rclpy(arguments, stop)
        made = kind()
    except Exception as error:  # of parameters, arguments or the middleware
        stop.finish()
        return _print_start_error(executable, error)
    run(made, stop)
    stop.finish()
    return 0


def _print_start_error(executable, error):
    """Print the error of a failed start on one line, without source locations of rcl; return the exit
    code."""
    import rclpy

    print(f"{executable}: {one_line(str(error).partition(', at /')[0])}", file=sys.stderr)
    rclpy.try_shutdown()
    return 1


if __name__ == "__main__":
    sys.exit(main())
