"""dynamics sensors: whether sensors determine a robot's motion."""

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.cli.options import robot_command
from dynamics_node.functions import UnobservableError
from dynamics_node.graph import observability
from dynamics_node.robot import sensor_problem
from dynamics_node.robot.sensors import load_sensors


def add_parser(commands):
    parser = robot_command(
        commands, "sensors", show_sensors, "whether sensors determine a robot's motion, and what would help"
    )
    parser.add_argument("sensors", metavar="SENSORS.yaml", help="sensors: see docs/sensors.md")
    parser.add_argument("--at", type=float, nargs="+", metavar="Q", help="at this position, too")


def show_sensors(model, options):
    """Print a row for every sensor and what they determine; UnobservableError where that is not all."""
    problem = sensor_problem(model, load_sensors(options.sensors))
    found = observability(model, problem, _position(model, options.at))
    _print_table(problem)
    if not found.observable:
        raise UnobservableError(found)
    print(f"{found}; {found.degrees_of_freedom} readings more than needed")


def _position(model, q):
    if q is None:
        return None
    if len(q) != model.nq or not np.isfinite(q).all():
        raise ValueError(f"--at needs {model.nq} finite numbers: {', '.join(model.q_names)}")
    q = np.array(q)
    return first_closed(model, q)


def _print_table(problem):
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
