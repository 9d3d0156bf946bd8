"""dynamics doctor: what is odd about a robot's inertias, the probable cause, and what to do."""

from pathlib import Path

from dynamics_node.algorithms import read_loops_file
from dynamics_node.cli.options import robot_choices
from dynamics_node.identification.doctor import examine, lines, repairs, write_page
from dynamics_node.io.write import write_text
from dynamics_node.robot import ModelError
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Inertial, with_numbers


def add_parser(commands):
    text = (
        "odd inertias of links and their probable causes, as text and one page; exit code 0: healthy, "
        "1: findings, 2: unreadable"
    )
    parser = commands.add_parser("doctor", help=text, description=text)
    robot_choices(parser)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("doctor.html"), metavar="FILE", help="page (doctor.html)"
    )
    parser.add_argument(
        "--repair", type=Path, metavar="FILE",
        help="write the description there, with the nearest consistent inertia for every impossible one",
    )  # fmt: skip
    parser.set_defaults(run=show_doctor, read=read_report, unreadable=2, lists_warnings=True)


def read_report(options):
    """(Report, the description's text). Raises ModelError with the file's name."""
    path = Path(options.urdf)
    text = path.read_bytes()
    choices = {"floating_base": options.floating_base, "joints": options.joints}
    if options.loops is not None:
        choices["loops"] = read_loops_file(options.loops)
    try:
        return examine(text, path.parent, **choices), text
    except ModelError as error:
        raise ModelError(f"{options.urdf}: {error}") from None


def show_doctor(read, options):
    """Print the findings, write the page and, if asked, the repaired description. Exit code 0 or 1."""
    report, text = read
    for line in lines(report):
        print(line)
    print(f"written: {write_page(report, options.out)}")
    if options.repair:
        _repair(report, text, options.repair)
    return 0 if report.is_healthy else 1


def _repair(report, text, path):
    better = repairs(report.links)
    inertias = {name: Inertial(own.inertia) for name, own in better.items()}
    write_text(path, with_numbers(text, inertias, figures=ALL_FIGURES))
    names = ", ".join(map(repr, better)) or "no link: none is impossible"
    print(f"written: {path}, with the nearest consistent inertia of {names}")
