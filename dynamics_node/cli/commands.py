"""The parser of `dynamics`, its exit codes, and the function that runs a command."""

import argparse
import contextlib
import re
import sys
import time
import traceback
import warnings

from dynamics_node import __version__
from dynamics_node.cli import (
    checking,
    converting,
    evaluating,
    excitation,
    exporting,
    identifying,
    inspecting,
    motions,
    stopping,
)
from dynamics_node.cli.options import UsageError, input_paths, reject_overwritten_inputs
from dynamics_node.cli.parser import Command
from dynamics_node.cli.printer import Printer, say
from dynamics_node.errors import (
    ChoiceError,
    ClosureError,
    CompileError,
    ExcitationError,
    IdentificationError,
    InfeasibleError,
    ModelError,
    ModelWarning,
    SingularPivotError,
    SolutionError,
    TrajectoryError,
)
from dynamics_node.functions import UnobservableError
from dynamics_node.io import RecordingWarning
from dynamics_node.output_files import protecting
from dynamics_node.robot.safe_files import file_trouble

GROUPS = {
    "inspect a robot": (
        inspecting.add_info,
        inspecting.add_doctor,
        inspecting.add_sensors,
        inspecting.add_explain,
        converting.add_convert,
        converting.add_compare,
    ),
    "compute": (
        evaluating.add_evaluate,
        motions.add_simulate,
        motions.add_inverse_trajectory,
        checking.add_check,
        stopping.add_stop,
        stopping.add_stopping_table,
        evaluating.add_compile,
        exporting.add_export,
    ),
    "estimate from recordings": (
        motions.add_smooth,
        identifying.add_identify,
        identifying.add_payload,
        excitation.add_excitation,
    ),
}

ELSEWHERE = {"graph": "explain"}  # commands that are part of others
NEGATIVE, USAGE, UNREADABLE = 1, 2, 3
EXIT_CODES = {
    0: "done",
    NEGATIVE: "a negative result: findings of `doctor`, robots that differ, an infeasible trajectory or "
    "stop, no better torques, too little excitation, unobservable motion, no solution",
    USAGE: "wrong usage: an option or a combination of options",
    UNREADABLE: "an input that cannot be read or does not fit the robot or the memory, an output that cannot "
    "be written",
    130: "ended by Ctrl-C",
    143: "ended by SIGTERM",
}
_NEGATIVE = (
    ClosureError,
    CompileError,
    ExcitationError,
    IdentificationError,
    InfeasibleError,
    SingularPivotError,
    SolutionError,
    TrajectoryError,
    UnobservableError,
)
_UNREADABLE = (ModelError, ValueError, OSError)


def run(arguments=None):
    """Run a command.

    Characters that move the cursor or change the direction of text are printed as Python writes them, because
    names come from untrusted files.

    Parameters
    ----------
    arguments : list of str, optional
        Default: `sys.argv[1:]`.

    Returns
    -------
    int
        A key of EXIT_CODES. An error is one line on stderr, with `--verbose` a traceback, too.
    """
    parser = make_parser()
    with contextlib.suppress(ImportError):
        import argcomplete  # an extra: completion in shells

        argcomplete.autocomplete(parser)
    options = _parsed(parser, sys.argv[1:] if arguments is None else arguments)
    printer = Printer(options.json, options.quiet)
    try:
        with (
            _warnings_on_stderr(options),
            protecting(input_paths(options)),
        ):
            reject_overwritten_inputs(options)
            robot = _timed("read", options, lambda: options.read(options))
            code = _timed(options.command, options, lambda: options.run(robot, options, printer))
            printer.close()
            return code or 0
    except (UsageError, ChoiceError) as error:
        return _failed(error, USAGE, options)
    except _NEGATIVE as error:
        return _failed(error, NEGATIVE, options)
    except _UNREADABLE as error:
        return _failed(error, UNREADABLE, options)
    except MemoryError as error:
        return _failed(f"not enough memory: {error}", UNREADABLE, options)


def _parsed(parser, arguments):
    """The options; ends with the usage of the command if words are left over."""
    if arguments and (other := ELSEWHERE.get(arguments[0])):
        parser.error(f"there is no command {arguments[0]!r}: use dynamics {other}")
    options, rest = parser.parse_known_args(joined_numbers(arguments))
    if rest:
        options.usage_error(f"unrecognized arguments: {' '.join(rest)}{_hint(arguments, rest)}")
    return options


def _hint(arguments, rest):
    """What is wrong with words that are no options."""
    words = [word for word in rest if not word.startswith("-")]
    if not words:
        return ""
    before = arguments[: arguments.index(words[0])]
    if any(word.startswith("--") for word in before):
        return "; values of a list are separated by commas, as in --joints a,b"
    return "; the command takes one robot"


def make_parser():
    """The parser of all commands, which are listed by groups."""
    parser = argparse.ArgumentParser(
        prog="dynamics",
        description="Inspect robots, compute their dynamics and estimate their parameters, without ROS.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dynamics_node {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command", parser_class=Command)
    lines = []
    for group, adders in GROUPS.items():
        lines += [f"{group}:"]
        for add_command in adders:
            known = set(commands.choices)
            add_command(commands)
            (name,) = set(commands.choices) - known
            lines += [f"  {name:19} {_summary(commands.choices[name])}"]
        lines += [""]
    lines += ["exit codes:", *(f"  {code:3}  {_short(text)}" for code, text in EXIT_CODES.items())]
    lines += ["", "`dynamics COMMAND --help` lists the options of a command, with examples."]
    parser.epilog = "\n".join(lines)
    return parser


def _summary(command):
    return command.description[0].lower() + command.description[1:].rstrip(".")


def _short(text):
    return text.partition(":")[0]


def joined_numbers(arguments):
    """Arguments in which a list that begins with a minus sign follows its option by `=`: argparse takes
    `-0.5,1` for an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and re.fullmatch(r"--[\w-]+", joined[-1]) and re.fullmatch(r"-[\d.][\d.,eE+-]*", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _timed(stage, options, compute):
    started = time.perf_counter()
    result = compute()
    if options.verbose:
        say(f"dynamics: {stage}: {time.perf_counter() - started:.2f} s", sys.stderr)
    return result


def _failed(error, code, options):
    """The exit code, after the error on stderr."""
    if options.verbose:
        say(traceback.format_exc().rstrip(), sys.stderr)
    text = file_trouble(error) if isinstance(error, OSError) else error
    say(f"dynamics: {text}", sys.stderr)
    return code


@contextlib.contextmanager
def _warnings_on_stderr(options):
    """A ModelWarning or RecordingWarning is one line; commands that list all ModelWarnings print none."""
    with warnings.catch_warnings():
        hidden = options.quiet or getattr(options, "lists_warnings", False)
        warnings.simplefilter("ignore" if hidden else "always", ModelWarning)
        warnings.simplefilter("ignore" if options.quiet else "always", RecordingWarning)
        warnings.showwarning = lambda message, *_: say(f"dynamics: warning: {message}", sys.stderr)
        yield
