"""dynamics explain: one page that shows what the dynamics of a robot come to."""

from pathlib import Path

from dynamics_node.cli.options import add_problem, read_problem, robot_command
from dynamics_node.graph import ORDERINGS
from dynamics_node.io import make_report, write_page


def add_parser(commands):
    text = "factor graph, elimination, matrices, operation counts and C code as one HTML page"
    parser = robot_command(commands, "explain", explain, text)
    add_problem(parser)
    parser.add_argument(
        "--ordering", nargs="+", default=["best"], metavar="ORDERING",
        help=f"{', '.join(ORDERINGS)}, best, or the variables in order: tau1 F1 ...",
    )  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=Path("explained"), help="folder (explained)")


def explain(model, options):
    """Write the page, telling on the way what was counted."""
    ordering = _ordering(options.ordering)
    options.out.mkdir(parents=True, exist_ok=True)
    report = make_report(model, read_problem(model, options), ordering, _tell)
    print(f"written: {write_page(report, options.out)}")


def _ordering(words):
    """A name, or variables, which have numbers."""
    if len(words) > 1 or any(letter.isdigit() for letter in words[0]):
        return words
    if words[0] not in (*ORDERINGS, "best"):
        raise ValueError(f"--ordering {words[0]!r} is none of {', '.join(ORDERINGS)}, best")
    return words[0]


def _tell(line):
    known = {"edges": line.edges, "operations": line.operations}
    numbers = ", ".join(f"{n} {what}" for what, n in known.items() if n is not None)
    print(f"{line.name}: {numbers}{', ' if numbers and line.note else ''}{line.note}", flush=True)
