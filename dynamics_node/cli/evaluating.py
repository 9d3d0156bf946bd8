"""dynamics evaluate: inverse or forward dynamics of a whole table of states, or of a bag."""

import contextlib
import sys
import time
from pathlib import Path

from dynamics_node.cli.robot import add_problem, read_problem, robot_command
from dynamics_node.solver import build
from dynamics_node.tables import TableError, evaluate, open_table, table_writer

try:
    from rich.progress import Progress
except ImportError:  # an extra: without it there is no bar
    Progress = None  # type: ignore[assignment,misc]


def add_parser(commands):
    text = "inverse or forward dynamics of every state of a table or a rosbag"
    parser = robot_command(commands, "evaluate", evaluate_table, text)
    add_problem(parser, default="inverse")
    parser.add_argument(
        "--input", type=Path, required=True, help="FILE.npz, .csv, .parquet, or a bag with JointStates"
    )
    parser.add_argument("--output", type=Path, required=True, help="FILE.npz, .csv or .parquet")
    parser.add_argument("--topic", help="of the bag, if it has several with JointStates")
    parser.add_argument("--precision", choices=("float64", "float32"), default="float64")
    parser.add_argument("--chunk", type=int, default=16384, metavar="ROWS", help="rows in memory at a time")


def evaluate_table(model, options):
    """Read, compute and write in chunks; say how many there were and which could not be computed."""
    problem = read_problem(model, options)
    if problem.kind == "hybrid":
        raise TableError("evaluate takes inverse and forward dynamics")
    if options.chunk < 1:
        raise TableError(f"--chunk must be positive, not {options.chunk}")
    table = open_table(options.input, model, problem, options.chunk, options.topic)
    solver = build(model, problem, precision=options.precision)
    started = time.perf_counter()
    result = "tau" if problem.kind == "inverse" else "qdd"
    with (
        table_writer(options.output, model, result, table.timed) as write,
        _progress(table.rows) as advance,
    ):
        summary = evaluate(solver, table, write, advance)
    seconds = time.perf_counter() - started
    print(f"{summary.rows} states in {seconds:.2f} s, written: {options.output}")
    if summary.bad:
        print(
            f"dynamics: {summary.bad} states are not finite, not of unit length or have no solution; "
            f"their results are NaN (first: row {summary.first_bad})",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _progress(rows):
    """advance(rows): a bar on a terminal."""
    if Progress is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("states", total=rows)
        yield lambda done: bar.advance(task, done)
