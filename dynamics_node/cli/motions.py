"""dynamics simulate, inverse-trajectory and smooth: commands that compute a trajectory."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.cli.options import (
    RECORDING,
    TABLES,
    UsageError,
    add_command,
    add_friction,
    add_output,
    add_recording,
    add_strict,
    joints_map,
    names,
    numbers,
    page_to_write,
    plot_to_write,
    positive,
    table_to_write,
)
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
from dynamics_node.trajectory.inverse_problem import STDS
from dynamics_node.trajectory.simulation import MOST_STEPS
from dynamics_node.trajectory.trajectory import joined

BACKENDS = ("auto", "c", "numpy")
NOISE = {
    "encoder_std": "standard deviation of a measured position, rad or m",
    "torque_std": "standard deviation of the motors' torques, N m or N",
    "jerk_density": "spectral density of the jerk, rad²/s⁵ or m²/s⁵: how fast accelerations change",
    "external_torque_density": "spectral density of the rate of external torques, (N m)²/s or N²/s",
}


def motion_command(commands, name, run, text, examples):
    """Parser of a command that computes a trajectory."""
    parser = add_command(commands, name, run, text, examples)
    add_strict(parser)
    add_output(parser, table_to_write, f"the motion as a table: {', '.join(TABLES)}", metavar="FILE")
    parser.add_argument("--plot", type=plot_to_write, metavar="FILE", help="its curves: .png, .svg, .pdf")
    parser.add_argument("--animate", type=page_to_write, metavar="FILE.html", help="a page that plays it")
    parser.add_argument(
        "--show", action="extend", type=names, metavar="JOINT,...", help="joints in the plot (default: all)"
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto",
        help="c: compiled code; numpy; auto: c if there is a compiler (default: auto)",
    )  # fmt: skip
    return parser


def start_of(robot, given):
    """A closed position (nq,); given: positions of all joints, of the independent ones, or None for zero."""
    q = robot.neutral() if given is None else np.array(given, dtype=float)
    if len(q) not in (robot.nq, robot.nv):
        raise UsageError(
            f"--start needs {robot.nq} numbers, {', '.join(robot.q_names)}, or the {robot.nv} of the "
            f"independent joints, not {len(q)}"
        )
    if len(q) == robot.nv < robot.nq:
        q, own = robot.neutral(), q
        for name, value in zip(robot.v_names, own, strict=True):
            if name not in robot.q_names:
                raise UsageError(f"--start needs {robot.nq} numbers: {', '.join(robot.q_names)}")
            q[robot.q_names.index(name)] = value
    return first_closed(robot, q)


# --- simulate ----------------------------------------------------------------------------------------------


def add_simulate(commands):
    parser = motion_command(
        commands, "simulate", simulate_robot, "Simulate a robot from a start, under torques.",
        ["panda.urdf --start 0,-0.5,0,-2,0,1.6,0,0 --duration 2 -o fall.parquet --animate fall.html"],
    )  # fmt: skip
    parser.add_argument("--duration", type=positive, default=1.0, metavar="S", help="s (default: 1)")
    parser.add_argument(
        "--dt", type=positive, default=1e-3, metavar="S", help="time step, s (default: 0.001)"
    )
    parser.add_argument(
        "--start", action="extend", type=numbers, metavar="Q,...",
        help="positions of all joints, or of the independent ones (default: zero; loops are closed)",
    )  # fmt: skip
    parser.add_argument(
        "--velocity", action="extend", type=numbers, metavar="QD,...",
        help="velocities of the independent joints (default: zero)",
    )  # fmt: skip
    torque = parser.add_mutually_exclusive_group()
    torque.add_argument(
        "--torque", action="extend", type=numbers, metavar="TAU,...",
        help="constant torques of the independent joints (default: zero)",
    )  # fmt: skip
    torque.add_argument(
        "--torques", type=Path, metavar="FILE", help="a table with time and tau, interpolated linearly"
    )
    add_friction(parser, default=True)
    parser.add_argument(
        "--lag-steps", type=int, default=2, metavar="STEPS",
        help="steps solved at a time; 0: all of them (default: 2)",
    )  # fmt: skip


def simulate_robot(robot, options, printer):
    """Simulate and write; after a failure, write the states before it."""
    check_outputs(robot, options)
    if (count := options.duration / options.dt) > MOST_STEPS:
        raise UsageError(f"--duration and --dt are {count:.3g} steps: at most {MOST_STEPS} are simulated")
    _check_length(robot, "--velocity", options.velocity)
    _check_length(robot, "--torque", options.torque)
    start, torque = start_of(robot, options.start), options.torque
    if options.torques is not None:
        torque = _torques(robot, options)
    with printer.progress("steps", None) as advance:
        finish(
            robot,
            options,
            printer,
            lambda: simulate(
                robot, start, options.velocity, options.duration, dt=options.dt, torque=torque,
                backend=options.backend, lag_steps=options.lag_steps or None, friction=options.friction,
                progress=lambda done: advance(1),
            ),
        )  # fmt: skip


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
        commands, "inverse-trajectory", torques_of_curve,
        "Compute the torques that move a robot along a curve.",
        ["five_bar.urdf curve.csv -o torques.csv"],
    )  # fmt: skip
    parser.add_argument(
        "input", type=Path, metavar="CURVE",
        help=f"{RECORDING}: time and q of all joints or of the independent ones, optionally qd and qdd",
    )  # fmt: skip
    add_recording(parser)
    parser.add_argument(
        "--stds", type=numbers, default=list(STDS), metavar="Q,QD,QDD",
        help="standard deviations of the curve, its rate and acceleration (default: 1e-5,1e-4,1e-2)",
    )  # fmt: skip
    parser.add_argument(
        "--start", action="extend", type=numbers, metavar="Q,...",
        help="a closed position near the first one",
    )  # fmt: skip


def torques_of_curve(robot, options, printer):
    """Compute torques and write the motion."""
    check_outputs(robot, options)
    if len(options.stds) != 3:
        raise UsageError(f"--stds needs 3 numbers, of q, qd and qdd, not {len(options.stds)}")
    curve = read_table(
        options.input,
        robot,
        ("q", "qd", "qdd"),
        ("time", "q"),
        options.topic,
        joints_map=joints_map(options),
    )
    start = start_of(robot, options.start) if options.start or curve["q"].shape[1] < robot.nq else None
    with printer.progress("solving", None):
        finish(
            robot,
            options,
            printer,
            *(
                partial(
                    inverse_trajectory, robot, own["time"], own["q"], own.get("qd"), own.get("qdd"),
                    q0=start, stds=options.stds, backend=options.backend,
                )
                for own in each_recording(curve, printer)
            ),
        )  # fmt: skip


# --- smooth ------------------------------------------------------------------------------------------------


def add_smooth(commands):
    parser = motion_command(
        commands, "smooth", smooth_recording,
        "Estimate motion and external torques from a recording, with standard deviations.",
        ["panda.urdf recording.parquet --sensors sensors.yaml -o smoothed.npz --animate smoothed.html"],
    )  # fmt: skip
    parser.add_argument(
        "input", type=Path, metavar="RECORDING",
        help=f"{RECORDING}: time, q, tau of the motors, and NAME.wx ... of sensors",
    )  # fmt: skip
    add_recording(parser)
    parser.add_argument(
        "--sensors", metavar="FILE", help="YAML of IMUs, gyros, accelerometers: see docs/reference/sensors.md"
    )
    for name, meaning in NOISE.items():
        default = getattr(SmootherOptions(), name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            default=default,
            metavar="X",
            help=f"{meaning} (default: {default:g})",
        )
    parser.add_argument(
        "--lag-steps", type=int, default=0, metavar="STEPS",
        help="steps of a fixed-lag smoother, as a node would estimate; 0: all readings count at all steps "
        "(default: 0)",
    )  # fmt: skip


def smooth_recording(robot, options, printer):
    """Smooth and write; after a failure, write the states before it."""
    check_outputs(robot, options)
    sensors = load_sensors(options.sensors) if options.sensors else ()
    labels = dict(zip((s.name for s in sensors), fitting_labels(robot, sensors), strict=True))
    table = read_table(
        options.input,
        robot,
        ("q", "tau"),
        ("time", "q"),
        options.topic,
        joints_map=joints_map(options),
        more=labels,
    )
    for name in labels.keys() - table.keys():
        raise TableError(
            f"{options.input} has no readings of sensor {name!r}: columns {', '.join(labels[name])}, in an "
            f".npz file an array {name!r}; recordings provide only JointStates"
        )
    parts = each_recording(table, printer)
    noise = SmootherOptions(**{name: getattr(options, name) for name in NOISE})
    with printer.progress("steps", sum(len(own["time"]) for own in parts)) as advance:
        finish(
            robot,
            options,
            printer,
            *(
                partial(
                    smooth, robot, own.pop("time"), own, sensors, options=noise,
                    lag_steps=options.lag_steps or None, backend=options.backend,
                    progress=lambda done: advance(1),
                )
                for own in parts
            ),
        )  # fmt: skip


def each_recording(table, printer):
    """The rows {kind: (k, ...)} of each recording within a table, at increasing times."""
    parts = [{kind: rows[part] for kind, rows in table.items()} for part in recordings(table["time"])]
    parts = [{kind: rows[later(own["time"])] for kind, rows in own.items()} for own in parts]
    if left := len(table["time"]) - sum(len(own["time"]) for own in parts):
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
    for own in parts:
        times.append(own - own[0] + start)
        start = times[-1][-1] + (np.median(np.diff(own)) if len(own) > 1 else 0.0)
    return replace(motion, time=np.concatenate(times))


def _summarize(motion, elapsed, printer):
    span = _in_succession(motion).time[-1]
    residuals = {name: float(errors.max()) for name, errors in motion.residuals.items()}
    printer.data(name=motion.name, states=len(motion), duration=float(span), largest_residuals=residuals)
    printer.line(f"{motion.name}: {len(motion)} states of {span:g} s in {elapsed:.2f} s")
    printer.line("largest residual of each kind of equation")
    width = max(len(name) for name in residuals)
    for name, largest in residuals.items():
        printer.line(f"  {name:{width}} {largest:9.2e}")


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
