"""dynamics simulate, inverse-trajectory and smooth: commands that compute a trajectory."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dynamics_node.cli.documented import arguments_of
from dynamics_node.cli.options import UsageError, closed_position, joints_map
from dynamics_node.cli.parser import RECORDING, add_command
from dynamics_node.cli.values import TABLES, numbers, page_to_write, plot_to_write, table_to_write
from dynamics_node.errors import TableError, TrajectoryError
from dynamics_node.io import later, plot_curves, read_table, recordings, table_writer
from dynamics_node.robot.sensor_fitting import fitting_labels
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.trajectory import (
    SmootherOptions,
    inverse_trajectory,
    robot_drawing,
    simulate,
    smooth,
    write_animation,
)
from dynamics_node.trajectory.simulation import MOST_STEPS
from dynamics_node.trajectory.trajectory import joined

NOISE = "encoder_std torque_std jerk_density external_torque_density"
BACKEND = {"choices": ("auto", "c", "numpy")}


def motion_command(commands, name, run, function, example):
    """Parser of a command that computes a trajectory by a function."""
    parser = add_command(commands, name, run, function, example)
    text = f"the motion as a table: {', '.join(TABLES)}"
    parser.add_value("-o --output", text, "FILE", type=table_to_write)
    parser.add_value("--plot", "its curves: .png, .svg, .pdf", "FILE", type=plot_to_write)
    parser.add_value("--animate", "a page that plays it", "FILE.html", type=page_to_write)
    parser.add_list("--show", "joints in the plot (default: all)", "JOINT,...")
    return parser


def _steps(text):
    """A number of steps, None for 0: all of them."""
    return int(text) or None


LAG = {"type": _steps, "metavar": "STEPS"}


# --- simulate ----------------------------------------------------------------------------------------------


def add_simulate(commands):
    parser = motion_command(
        commands,
        "simulate",
        simulate_robot,
        simulate,
        "panda.urdf --q0 0,-0.5,0,-2,0,1.6,0,0 --duration 2 -o fall.parquet --animate fall.html",
    )
    names, more = "qd0 duration dt friction lag_steps backend", {"lag_steps": LAG, "backend": BACKEND}
    parser.add_documented(simulate, names, duration={"default": 1.0}, **more)
    text = "positions of all joints, or of the independent ones (default: zero; loops are closed)"
    parser.add_list("--q0", text, "Q,...", numbers)
    torque = parser.add_mutually_exclusive_group()
    text = "constant torques of the independent joints (default: zero)"
    parser.add_list("--torque", text, "TAU,...", numbers, to=torque)
    text = "a table with time and tau, interpolated linearly"
    parser.add_value("--torques", text, "FILE", type=Path, to=torque)


def simulate_robot(robot, options, printer):
    """Simulate and write; after a failure, write the states before it."""
    check_outputs(robot, options)
    if (count := options.duration / options.dt) > MOST_STEPS:
        raise UsageError(f"--duration and --dt are {count:.3g} steps: at most {MOST_STEPS} are simulated")
    _check_length(robot, "--qd0", options.qd0)
    _check_length(robot, "--torque", options.torque)
    choices = arguments_of(options, simulate) | {"q0": closed_position(robot, "--q0", options.q0)}
    choices["torque"] = options.torque if options.torques is None else _torques(robot, options)
    with printer.progress("steps") as progress:
        finish(robot, options, printer, partial(simulate, robot, **choices, progress=lambda _: progress(1)))


def _check_length(robot, option, values):
    """Raise UsageError unless there is a number for every independent joint, or none."""
    if values is not None and len(values) != robot.nv:
        raise UsageError(f"{option} needs {robot.nv} numbers, not {len(values)}: {', '.join(robot.v_names)}")


def _torques(robot, options):
    """(steps + 1, nv) of the table, at the times of the steps; constant before and after it."""
    table = read_table(options.torques, robot, ("tau",), ("time", "tau"))
    if (earlier := np.flatnonzero(~later(table["time"]))).size:
        raise TableError(f"{options.torques}: time does not increase at row {earlier[0]}")
    times = table["time"][0] + options.dt * np.arange(round(options.duration / options.dt) + 1)
    return np.stack([np.interp(times, table["time"], column) for column in table["tau"].T], axis=1)


# --- inverse-trajectory ------------------------------------------------------------------------------------


def add_inverse_trajectory(commands):
    parser = motion_command(
        commands, "inverse-trajectory", torques_of_curve, inverse_trajectory,
        "five_bar.urdf curve.csv -o torques.csv",
    )  # fmt: skip
    text = f"{RECORDING}: time and q of all joints or of the independent ones, optionally qd and qdd"
    parser.add_argument("input", type=Path, metavar="CURVE", help=text)
    parser.add_recording()
    parser.add_documented(inverse_trajectory, "q0 stds backend", stds="Q,QD,QDD", backend=BACKEND)


def torques_of_curve(robot, options, printer):
    """Compute torques and write the motion."""
    check_outputs(robot, options)
    if options.stds and len(options.stds) != 3:
        raise UsageError(f"--stds needs 3 numbers, of q, qd and qdd, not {len(options.stds)}")
    curve = _table(robot, options, ("q", "qd", "qdd"))
    choices = arguments_of(options, inverse_trajectory)
    if options.q0 or curve["q"].shape[1] < robot.nq:
        choices["q0"] = closed_position(robot, "--q0", options.q0)
    with printer.progress("solving"):
        parts = each_recording(curve, printer)
        solutions = [partial(inverse_trajectory, robot, **rows, **choices) for rows in parts]
        finish(robot, options, printer, *solutions)


def _table(robot, options, kinds, **more):
    """The rows of the input."""
    names = joints_map(options)
    return read_table(options.input, robot, kinds, ("time", "q"), options.topic, joints_map=names, **more)


# --- smooth ------------------------------------------------------------------------------------------------


def add_smooth(commands):
    parser = motion_command(
        commands,
        "smooth",
        smooth_recording,
        smooth,
        "panda.urdf recording.parquet --sensors sensors.yaml -o smoothed.npz --animate smoothed.html",
    )
    text = f"{RECORDING}: time, q, tau of the motors, and NAME.wx ... of sensors"
    parser.add_argument("input", type=Path, metavar="RECORDING", help=text)
    parser.add_recording()
    text = "YAML of IMUs, gyros, accelerometers: see docs/reference/sensors.md"
    parser.add_value("--sensors", text, "FILE")
    parser.add_documented(SmootherOptions, NOISE)
    parser.add_documented(smooth, "lag_steps backend", lag_steps=LAG, backend=BACKEND)


def smooth_recording(robot, options, printer):
    """Smooth and write; after a failure, write the states before it."""
    check_outputs(robot, options)
    sensors = load_sensors(options.sensors) if options.sensors else ()
    labels = dict(zip((s.name for s in sensors), fitting_labels(robot, sensors, contacts=()), strict=True))
    table = _table(robot, options, ("q", "tau"), more=labels)
    for name in labels.keys() - table.keys():
        raise TableError(
            f"{options.input} has no readings of sensor {name!r}: columns {', '.join(labels[name])}, in an "
            f".npz file or a Zarr group an array {name!r}; recordings provide only JointStates"
        )
    parts = each_recording(table, printer)
    choices = arguments_of(options, smooth)
    choices["options"] = SmootherOptions(**arguments_of(options, SmootherOptions))
    with printer.progress("steps", sum(len(rows["time"]) for rows in parts)) as progress:
        choices["progress"] = lambda _: progress(1)
        smoothings = [partial(smooth, robot, rows.pop("time"), rows, sensors, **choices) for rows in parts]
        finish(robot, options, printer, *smoothings)


def each_recording(table, printer):
    """The rows {kind: (k, ...)} of each recording within a table, at increasing times."""
    parts = [{kind: rows[part] for kind, rows in table.items()} for part in recordings(table["time"])]
    parts = [{kind: rows[later(part["time"])] for kind, rows in part.items()} for part in parts]
    if left := len(table["time"]) - sum(len(part["time"]) for part in parts):
        printer.note(f"{left} of {len(table['time'])} rows are left out: their time does not increase")
    return parts


# --- outputs -----------------------------------------------------------------------------------------------


def check_outputs(robot, options):
    """Raise UsageError for unknown names in --show, before computing."""
    known = (*robot.q_names, *robot.v_names)
    for name in options.show or ():
        if name not in known:
            raise UsageError(
                f"--show: unknown coordinate {name!r}; there are {', '.join(dict.fromkeys(known))}"
            )


def finish(robot, options, printer, *computes):
    """Write the Trajectories of functions, one after the other; if one fails, write the states before the
    failure, and raise."""
    started, motions = time.perf_counter(), []
    try:
        for compute in computes:
            motions.append(compute())
    except TrajectoryError as error:
        if error.solution is not None and len(error.solution):
            motions.append(error.solution)
        if motions:
            motion = joined(motions)
            printer.note(f"{len(motion)} states before the error are written")
            _write(robot, options, motion, printer)
        raise
    except ImportError as error:  # an optional package: the message names what to install
        raise TableError(str(error)) from None
    motion = joined(motions)
    _summarize(motion, time.perf_counter() - started, printer)
    _write(robot, options, motion, printer)


def _in_succession(motion):
    """The Trajectory with times from zero, in which each recording starts after the one before it."""
    parts = [motion.time[part] for part in recordings(motion.time)]
    start, times = 0.0, []
    for time_of_part in parts:
        times.append(time_of_part - time_of_part[0] + start)
        start = times[-1][-1] + (np.median(np.diff(time_of_part)) if len(time_of_part) > 1 else 0.0)
    return replace(motion, time=np.concatenate(times))


def _summarize(motion, elapsed, printer):
    span = _in_succession(motion).time[-1]
    residuals = {name: float(errors.max()) for name, errors in motion.residuals.items()}
    printer.data(name=motion.name, states=len(motion), duration=float(span), largest_residuals=residuals)
    printer.line(f"{motion.name}: {len(motion)} states of {span:g} s in {elapsed:.2f} s")
    printer.line("largest residual of each kind of equation")
    printer.table(("", ""), [[f"  {name}", f"{largest:.2e}"] for name, largest in residuals.items()])


def _write(robot, options, motion, printer):
    if options.output is not None:
        arrays = motion.arrays
        with table_writer(options.output, motion, tuple(arrays), True) as write:
            write(arrays, motion.time)
        printer.written(options.output)
    motion = _in_succession(motion)
    if options.plot is not None:
        curves = [c for c in motion.curves() if options.show is None or c.name in options.show]
        plot_curves(options.plot, motion.time, curves, motion.name)
        printer.written(options.plot)
    if options.animate is not None:
        printer.written(write_animation(options.animate, motion, partial(robot_drawing, robot)))
