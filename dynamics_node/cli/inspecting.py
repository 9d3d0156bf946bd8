"""dynamics info, graph, explain, sensors and doctor: commands that look at a robot and its algorithms."""

from pathlib import Path

import numpy as np

from dynamics_node.algorithms import first_closed, read_loops_file
from dynamics_node.cli.options import add_problem, read_problem, robot_choices, robot_command
from dynamics_node.functions import UnobservableError, evaluate
from dynamics_node.graph import (
    ORDERINGS,
    eliminate,
    generic_graph,
    observability,
    plan_ordering,
    to_dot,
    to_svg,
)
from dynamics_node.identification import doctor
from dynamics_node.io import make_report, write_page
from dynamics_node.io.write import write_text
from dynamics_node.robot import ModelError, sensor_problem
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Inertial, with_numbers

# --- info ---------------------------------------------------------------------------------------------------


def add_info(commands):
    parser = robot_command(commands, "info", show_info, "joints, bodies, limits and warnings of a robot")
    parser.set_defaults(lists_warnings=True)
    parser.add_argument(
        "--at", type=float, nargs="+", metavar="Q", help="gravity torques and mass matrix at q"
    )


def show_info(model, options):
    """Print what the robot holds; with --at also h and M there."""
    tree = model.tree
    print(
        f"{model.name}: {model.nbodies} moving bodies, nq {model.nq}, nv {model.nv}, root {model.base_link!r}"
    )
    print(f"{'body':28} {'joint':28} {'type':10} {'mass kg':>8} {'effort limit':>12}  follows")
    for body in tree.bodies:
        joint = body.joint
        effort = "" if joint.type.is_free else f"{joint.limits.effort or np.inf:g}"
        print(
            f"{body.name:28} {joint.name:28} {joint.kind:10} {body.inertia[5, 5]:8.3f} {effort:>12}  "
            f"{', '.join(joint.masters.names) if joint.masters else ''}"
        )
    if model.constrained:
        _show_loops(model)
    for warning in model.warnings:
        print(f"warning: {warning}")
    if options.at is not None:
        _show_state(model, options.at)


def _show_loops(mechanism):
    names = mechanism.tree.v_names
    print(f"{'constraint':28} {'type':10} dependent joints")
    for cluster in (cluster for cluster in mechanism.clusters if cluster.constraints):
        dependent = ", ".join(names[v] for v in sorted(cluster.dependent))
        for constraint in cluster.constraints:
            kind = getattr(constraint, "kind", type(constraint).__name__.lower())
            print(f"{constraint.name:28} {kind:10} {dependent}")
            dependent = ""
    print(f"independent: {', '.join(mechanism.v_names)}")


def _show_state(model, q):
    if len(q) != model.nq:
        raise ValueError(f"--at needs {model.nq} numbers, not {len(q)}: {', '.join(model.q_names)}")
    for name, value in zip(model.q_names, q, strict=True):
        if not np.isfinite(value):
            raise ValueError(f"--at: {name} is {value}")
    q = first_closed(model, np.array(q))
    rest = np.zeros(model.nv)
    with np.printoptions(precision=4, suppress=True, linewidth=160):
        if model.constrained:
            print(f"closed position\n{q}")
        print(f"gravity torques\n{evaluate(model, 'nonlinear_effects', q, rest, backend='numpy')}")
        print(f"mass matrix\n{evaluate(model, 'mass_matrix', q, backend='numpy')}")


# --- graph --------------------------------------------------------------------------------------------------


DRAWINGS = {
    ".svg": lambda net, parents: to_svg(net, parents=parents),
    ".dot": lambda net, parents: to_dot(net),
}


def add_graph(commands):
    parser = robot_command(commands, "graph", show_graph, "orderings, edges and a drawing of a Bayes net")
    add_problem(parser)
    parser.add_argument("--ordering", choices=(*ORDERINGS, "best"), help="default: a table of all")
    parser.add_argument("--out", type=Path, help="write the Bayes net: FILE.svg or FILE.dot")


def show_graph(model, options):
    """Print a table of orderings, or one Bayes net, and draw it."""
    draw = _drawing(options) if options.out else None
    problem = read_problem(model, options)
    graph = generic_graph(model, problem)
    names = [options.ordering] if options.ordering else list(ORDERINGS)
    print(f"{'ordering':16} {'edges':>6} {'entries':>8}  pivots")
    for name in names:
        ordering, plan = plan_ordering(model, problem, name)
        net = eliminate(graph, plan)
        pivots = "safe" if plan.safe else "checked at run time"
        print(f"{ordering.name:16} {len(net.edges):6} {plan.size:8}  {pivots}")
    if options.ordering:
        print(net)
    if draw:
        write_text(options.out, draw(net, model.tree.parents))
        print(f"written: {options.out}")


def _drawing(options):
    """What draws the net as the file's name says. Raises ValueError before anything is computed."""
    if not options.ordering:
        raise ValueError("--out draws one net: choose it with --ordering")
    if options.out.suffix not in DRAWINGS:
        raise ValueError(
            f"--out draws FILE.svg or FILE.dot, not {options.out}: "
            "`dot -Tpng FILE.dot -o FILE.png` makes a PNG of points"
        )
    return DRAWINGS[options.out.suffix]


# --- explain ------------------------------------------------------------------------------------------------


def add_explain(commands):
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
    ordering = _read_ordering(options.ordering)
    options.out.mkdir(parents=True, exist_ok=True)
    report = make_report(model, read_problem(model, options), ordering, _print_line)
    print(f"written: {write_page(report, options.out)}")


def _read_ordering(words):
    """A name, or variables, which have numbers."""
    if len(words) > 1 or any(letter.isdigit() for letter in words[0]):
        return words
    if words[0] not in (*ORDERINGS, "best"):
        raise ValueError(f"--ordering {words[0]!r} is none of {', '.join(ORDERINGS)}, best")
    return words[0]


def _print_line(line):
    known = {"edges": line.edges, "operations": line.operations}
    numbers = ", ".join(f"{n} {what}" for what, n in known.items() if n is not None)
    print(f"{line.name}: {numbers}{', ' if numbers and line.note else ''}{line.note}", flush=True)


# --- sensors ------------------------------------------------------------------------------------------------


def add_sensors(commands):
    parser = robot_command(
        commands, "sensors", show_sensors, "whether sensors determine a robot's motion, and what would help"
    )
    parser.add_argument("sensors", metavar="SENSORS.yaml", help="sensors: see docs/reference/sensors.md")
    parser.add_argument("--at", type=float, nargs="+", metavar="Q", help="at this position, too")


def show_sensors(model, options):
    """Print a row for every sensor and what they determine; UnobservableError where that is not all."""
    problem = sensor_problem(model, load_sensors(options.sensors))
    found = observability(model, problem, _read_position(model, options.at))
    _print_sensors(problem)
    if not found.observable:
        raise UnobservableError(found)
    print(f"{found}; {found.degrees_of_freedom} readings more than needed")


def _read_position(model, q):
    if q is None:
        return None
    if len(q) != model.nq or not np.isfinite(q).all():
        raise ValueError(f"--at needs {model.nq} finite numbers: {', '.join(model.q_names)}")
    q = np.array(q)
    return first_closed(model, q)


def _print_sensors(problem):
    from rich.console import Console
    from rich.table import Table

    table = Table("sensor", "type", "at", "rows", "std")
    for sensor, labels in zip(problem.sensors, problem.labels, strict=True):
        known = "" if sensor.value is None else f" = {_numbers(sensor.value)}"
        std = "covariance" if sensor.std is None else _numbers(sensor.std)
        rows = " ".join(label.removeprefix(f"{sensor.name}.") for label in labels if label != sensor.name)
        table.add_row(sensor.name, sensor.kind, sensor.place, rows + known, std)
    Console(markup=False, highlight=False).print(table)


def _numbers(value):
    return " ".join(f"{number:g}" for number in np.ravel(value))


# --- doctor -------------------------------------------------------------------------------------------------


def add_doctor(commands):
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
        return doctor.examine(text, path.parent, **choices), text
    except ModelError as error:
        raise ModelError(f"{options.urdf}: {error}") from None


def show_doctor(read, options):
    """Print the findings, write the page and, if asked, the repaired description. Exit code 0 or 1."""
    report, text = read
    for line in doctor.lines(report):
        print(line)
    print(f"written: {doctor.write_page(report, options.out)}")
    if options.repair:
        _repair(report, text, options.repair)
    return 0 if report.is_healthy else 1


def _repair(report, text, path):
    better = doctor.repairs(report.links)
    inertias = {name: Inertial(own.inertia) for name, own in better.items()}
    write_text(path, with_numbers(text, inertias, figures=ALL_FIGURES))
    names = ", ".join(map(repr, better)) or "no link: none is impossible"
    print(f"written: {path}, with the nearest consistent inertia of {names}")
