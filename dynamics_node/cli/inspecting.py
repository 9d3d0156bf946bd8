"""dynamics info, doctor, sensors and explain: commands that inspect a robot and its algorithms."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.options import (
    UsageError,
    closed_position,
    contacts_of,
    errors_of_description,
    read_problem,
)
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import file_to_write, folder_to_write, numbers
from dynamics_node.errors import SingularPivotError
from dynamics_node.functions import UnobservableError, evaluate
from dynamics_node.graph import (
    ORDERINGS,
    observability,
    plan_ordering,
)
from dynamics_node.identification import doctor
from dynamics_node.io import make_report, write_page
from dynamics_node.output_files import write_text
from dynamics_node.robot import sensor_problem
from dynamics_node.robot.loops_file import read_loops_file
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Inertial, with_numbers


def _add_contacts(parser):
    parser.add_value("--contacts", "YAML file of contacts, whose forces are unknown, too", "FILE", type=Path)


def _add_at(parser, text):
    parser.add_list("--at", text, "Q,...", numbers)


# --- info ---------------------------------------------------------------------------------------------------


def add_info(commands):
    parser = add_command(
        commands, "info", show_info, "Print joints, bodies, limits and warnings of a robot.",
        "panda.urdf", "panda.urdf --at 0,-0.5,0,-2,0,1.5,0.8,0", "panda.urdf --json",
    )  # fmt: skip
    parser.set_defaults(lists_warnings=True)
    _add_at(parser, "print gravity torques and mass matrix at this position, too")


def show_info(robot, options, printer):
    """Print bodies and constraints; with --at also gravity torques and mass matrix there."""
    q = None if options.at is None else closed_position(robot, "--at", options.at)
    printer.data(
        name=robot.name, nbodies=robot.nbodies, nq=robot.nq, nv=robot.nv, root=robot.base_link,
        q_names=robot.q_names, v_names=robot.v_names, warnings=robot.warnings,
        bodies=[_body(body) for body in robot.tree.bodies], constraints=list(_constraints(robot)),
        actuators=[_actuator(actuator) for actuator in robot.actuators],
    )  # fmt: skip
    printer.line(
        f"{robot.name}: {robot.nbodies} moving bodies, nq {robot.nq}, nv {robot.nv}, root {robot.base_link!r}"
    )
    head = ("body", "joint", "type", "mass kg", "effort limit", "mimics")
    rows = []
    for body in map(_body, robot.tree.bodies):
        effort = "" if body["effort_limit"] is None else f"{body['effort_limit']:g}"
        cells = (body["body"], body["joint"], body["type"], f"{body['mass']:.3f}")
        rows.append([*cells, effort, ", ".join(body["mimics"])])
    printer.table(head, rows)
    if robot.constrained:
        _show_constraints(robot, printer)
    _show_actuators(robot, printer)
    for warning in robot.warnings:
        printer.line(f"warning: {warning}")
    if q is not None:
        _show_state(robot, q, printer)


def _body(body):
    joint = body.joint
    effort = None if joint.type.is_free else float(joint.limits.effort or np.inf)
    return {
        "body": body.name,
        "joint": joint.name,
        "type": joint.kind,
        "mass": body.mass,
        "effort_limit": effort,
        "mimics": list(joint.masters.names) if joint.masters else [],
    }


def _actuator(actuator):
    turns = dict(zip(actuator.masters.names, actuator.masters.weights, strict=True))
    rotor = actuator.armature if actuator.coupled else None
    return {"actuator": actuator.name, "turns": turns, "rotor_inertia": rotor}


def _show_actuators(robot, printer):
    """Motors by the rates of joints; rotors of other motors are part of the joints' armature."""
    rows = []
    for row in map(_actuator, robot.actuators):
        turns = " ".join(f"{weight:+g} {joint}" for joint, weight in row["turns"].items())
        rotor = "at the joint" if row["rotor_inertia"] is None else f"{row['rotor_inertia']:g}"
        rows.append([row["actuator"], turns, rotor])
    if rows:
        printer.table(("motor", "turns by", "rotor kg m^2"), rows)


def _constraints(robot):
    joints = robot.tree.v_names
    for cluster in robot.clusters:
        dependent = [joints[v] for v in sorted(cluster.dependent)]
        for constraint in cluster.constraints:
            kind = getattr(constraint, "kind", type(constraint).__name__.lower())
            yield {"name": constraint.name, "type": kind, "dependent": dependent}


def _show_constraints(robot, printer):
    rows, previous = [], None
    for row in _constraints(robot):
        dependent = "" if row["dependent"] == previous else ", ".join(row["dependent"])
        rows.append([row["name"], row["type"], dependent])
        previous = row["dependent"]
    printer.table(("constraint", "type", "dependent joints"), rows)
    printer.line(f"independent: {', '.join(robot.v_names)}")


def _show_state(robot, q, printer):
    gravity = evaluate(robot, "nonlinear_effects", q, np.zeros(robot.nv), backend="numpy")
    M = evaluate(robot, "mass_matrix", q, backend="numpy")
    printer.data(q=q, gravity_torque=gravity, mass_matrix=M)
    with np.printoptions(precision=4, suppress=True, linewidth=160):
        if robot.constrained:
            printer.line(f"closed position\n{q}")
        printer.line(f"gravity torques\n{gravity}")
        printer.line(f"mass matrix\n{M}")


# --- doctor -------------------------------------------------------------------------------------------------


def add_doctor(commands):
    parser = add_command(
        commands, "doctor", show_doctor, "Report implausible inertias of links and their probable causes.",
        "robot.urdf", "robot.urdf -o report.html --repair repaired.urdf", read=read_report,
    )  # fmt: skip
    text = "the report as a page (default: doctor.html; --json: none)"
    parser.add_value("-o --output", text, "FILE.html", type=file_to_write(".html", ".htm"))
    text = "write the description with the nearest consistent inertia for every impossible one"
    parser.add_value("--repair", text, "FILE", type=file_to_write())
    parser.set_defaults(lists_warnings=True)


def read_report(options):
    """(DoctorReport, text of the description). Raises as `errors_of_description`."""
    path = Path(options.urdf)
    text = path.read_bytes()
    choices = {"floating_base": options.floating_base, "joints": options.joints}
    if options.loops is not None:
        choices["loops"] = read_loops_file(options.loops)
    with errors_of_description(options):
        return doctor.examine(text, path.parent, **choices), text


def show_doctor(read, options, printer):
    """Print the findings, write the page and the repaired description. Exit code 1 for findings."""
    report, text = read
    printer.data(
        name=report.name, healthy=report.is_healthy, warnings=report.warnings,
        findings=[finding._asdict() for finding in report.findings],
        robot_findings=[*report.robot_findings, *([report.why] if report.why else [])],
    )  # fmt: skip
    for line in doctor.lines(report):
        printer.line(line)
    if output := options.output or (None if options.json else Path("doctor.html")):
        printer.written(doctor.write_page(report, output))
    if options.repair:
        _repair(report, text, options.repair, printer)
    return 0 if report.is_healthy else 1


def _repair(report, text, path, printer):
    better = doctor.repairs(report.links)
    inertias = {name: Inertial(link.inertia) for name, link in better.items()}
    write_text(path, with_numbers(text, inertias, figures=ALL_FIGURES))
    repaired = ", ".join(map(repr, better)) or "no link: all are consistent"
    printer.line(f"repaired: {repaired}")
    printer.data(repaired=list(better))
    printer.written(path)


# --- sensors ------------------------------------------------------------------------------------------------


def add_sensors(commands):
    parser = add_command(
        commands, "sensors", show_sensors, "Report whether sensors determine the motion of a robot.",
        "robot.urdf sensors.yaml", "robot.urdf sensors.yaml --at 0,-0.5,0,-2,0,1.5,0.8,0",
    )  # fmt: skip
    parser.add_argument("sensors", metavar="SENSORS.yaml", help="sensors, see docs/reference/sensors.md")
    _add_contacts(parser)
    _add_at(parser, "judge at this position, too")


def show_sensors(robot, options, printer):
    """Print a row per sensor and the observability; raise UnobservableError if it is incomplete."""
    q = None if options.at is None else closed_position(robot, "--at", options.at)
    sensors, contacts = load_sensors(options.sensors), contacts_of(robot, options)
    problem = sensor_problem(robot, sensors, contacts=contacts)
    result = observability(robot, problem, q)
    printer.data(
        observable=result.observable, unobservable=result.unobservable,
        unobservable_here=result.unobservable_here, repeated=result.repeated,
        degrees_of_freedom=result.degrees_of_freedom,
        sensors=[{"name": s.name, "type": s.kind, "at": s.place} for s in problem.sensors],
        would_help=[help.sensor.name for help in result.help],
    )  # fmt: skip
    _show_sensors(problem, printer)
    if not result.observable:
        printer.close()
        raise UnobservableError(result)
    printer.line(f"{result}; {result.degrees_of_freedom} redundant readings")


def _show_sensors(problem, printer):
    rows = []
    for sensor, labels in zip(problem.sensors, problem.labels, strict=True):
        known = "" if sensor.value is None else f" = {_joined(sensor.value)}"
        std = "covariance" if sensor.std is None else _joined(sensor.std)
        parts = " ".join(label.removeprefix(f"{sensor.name}.") for label in labels if label != sensor.name)
        rows.append((sensor.name, sensor.kind, sensor.place, parts + known, std))
    printer.table(("sensor", "type", "at", "rows", "std"), rows)


def _joined(value):
    return " ".join(f"{number:g}" for number in np.ravel(value))


# --- explain ------------------------------------------------------------------------------------------------


def add_explain(commands):
    parser = add_command(
        commands,
        "explain",
        explain,
        "Write one page about a problem: factor graph, elimination, matrices, operation counts, C code.",
        "panda.urdf --problem forward --ordering aba -o explained",
        "arm.urdf --ordering tau1,F1,A1,qdd1",
        "solo12.urdf --floating-base --contacts feet.yaml --ordering constrained_aba",
    )
    parser.add_problem()
    _add_contacts(parser)
    text = f"{', '.join(ORDERINGS)}, best, or the variables in order, as tau1,F1,... (default: best)"
    parser.add_list("--ordering", text, "ORDERING")
    text = "the page and its files (default: explained)"
    parser.add_value("-o --output", text, "FOLDER", type=folder_to_write, default=Path("explained"))


def explain(robot, options, printer):
    """Write the page, and print the counts meanwhile."""
    problem = read_problem(robot, options)
    ordering = _read_ordering(options.ordering or ["best"], robot, problem)
    lines = []

    def counted(line):
        known = {"edges": line.edges, "entries": line.entries, "operations": line.operations}
        lines.append({"name": line.name, **known})
        counts = ", ".join(f"{n} {kind}" for kind, n in known.items() if n is not None)
        printer.line(f"{line.name}: {counts}{', ' if counts and line.note else ''}{line.note}")

    page = write_page(make_report(robot, problem, ordering, counted), options.output)
    printer.data(counts=lines)
    printer.written(page)


def _read_ordering(words, robot, problem):
    """A name, or a list of variables, which contain digits."""
    if len(words) > 1 or any(letter.isdigit() for letter in words[0]):
        _check_variables(words, robot, problem)
        return words
    if words[0] not in (*ORDERINGS, "best"):
        raise UsageError(f"--ordering {words[0]!r} is none of {', '.join(ORDERINGS)}, best")
    return words[0]


def _check_variables(names, robot, problem):
    """Raise UsageError unless the list has all variables, once each."""
    try:
        plan_ordering(robot, problem, names)
    except SingularPivotError:
        raise
    except ValueError as error:
        raise UsageError(f"--ordering: {error}") from None
