"""Look at a robot, its graph and its algorithms, and compute, without ROS."""

import argparse
import contextlib
import sys
import warnings

from dynamics_node.algorithms import ClosureError
from dynamics_node.cli import evaluating, excitation, identifying, inspecting, motions
from dynamics_node.codegen import CompileError
from dynamics_node.functions import SolutionError
from dynamics_node.robot import ModelError, ModelWarning
from dynamics_node.robot.safe_files import file_trouble
from dynamics_node.text import Printable, printable
from dynamics_node.trajectory import TrajectoryError

COMMANDS = (
    inspecting.add_info,
    inspecting.add_graph,
    inspecting.add_explain,
    inspecting.add_doctor,
    inspecting.add_sensors,
    evaluating.add_compile,
    evaluating.add_evaluate,
    motions.add_simulate,
    motions.add_inverse_trajectory,
    motions.add_smooth,
    identifying.add_identify,
    identifying.add_payload,
    excitation.add_excitation,
)

EXPECTED = (ModelError, ValueError, OSError, CompileError, SolutionError, ClosureError, TrajectoryError)


def run(arguments=None):
    """Exit code 0 or what the command returns, or 1 (of `doctor` 2) with one line on stderr.

    Characters that move the cursor, or change the direction of text, are printed as Python writes them: names
    come from files of others.
    """
    options = _parser().parse_args(arguments)
    try:
        with contextlib.redirect_stdout(Printable(sys.stdout)), _warnings_on_stderr(options):
            return options.run(options.read(options), options) or 0
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
    except EXPECTED as error:
        told = file_trouble(error) if isinstance(error, OSError) else error
        print(f"dynamics: {printable(told)}", file=sys.stderr)
        return getattr(options, "unreadable", 1)
    return 0


@contextlib.contextmanager
def _warnings_on_stderr(options):
    """A ModelWarning is one line; commands that list all warnings themselves print none."""
    with warnings.catch_warnings():
        lists = getattr(options, "lists_warnings", False)
        warnings.simplefilter("ignore" if lists else "always", ModelWarning)
        warnings.showwarning = lambda message, *place: print(
            f"dynamics: warning: {printable(message)}", file=sys.stderr
        )
        yield


def _parser():
    parser = argparse.ArgumentParser(prog="dynamics", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_command in COMMANDS:
        add_command(commands)
    return parser
