"""dynamics simulate, inverse-trajectory and smooth: commands that make a motion."""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.cli.options import add_friction, add_recording, joints_map, progress, robot_command
from dynamics_node.io import TableError, check_plot, plot_curves, read_table, table_writer
from dynamics_node.robot.sensor_fitting import fitting_labels
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.trajectory import (
    SmootherOptions,
    TrajectoryError,
    inverse_trajectory,
    robot_drawing,
    simulate,
    smooth,
    write_animation,
)
from dynamics_node.trajectory.graphs import COORDINATES, RULES
from dynamics_node.trajectory.inverse_problem import STDS

BACKENDS = ("auto", "c", "numpy")
PAGES = (".html", ".htm")
NOISE = {
    "encoder_std": "of a reading of a position, rad or m",
    "torque_std": "of the torques of the motors, N m or N",
    "jerk_density": "of white jerk, rad²/s⁵ or m²/s⁵: how fast accelerations change",
    "external_torque_density": "of the random walk of torques from outside, (N m)²/s or N²/s",
}


def motion_command(commands, name, run, text):
    """A parser of a command that makes a motion."""
    parser = robot_command(commands, name, run, text)
    parser.add_argument("--output", type=Path, metavar="FILE", help="the motion: .npz, .csv or .parquet")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="its curves: .png, .svg or .pdf")
    parser.add_argument("--animate", type=Path, metavar="FILE", help="a page that plays it: .html")
    parser.add_argument("--show", nargs="+", metavar="JOINT", help="coordinates in the plot (all)")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto",
        help="what solves: compiled code (c), numpy; auto: c where it works (auto)",
    )  # fmt: skip
    return parser


def start_of(robot, given):
    """A closed position (nq,) with the joints where they are `given`: all, the independent ones, or None for
    zero."""
    q = robot.neutral() if given is None else np.array(given, dtype=float)
    if len(q) not in (robot.nq, robot.nv):
        raise TableError(
            f"--start needs {robot.nq} numbers, {', '.join(robot.q_names)}, or the {robot.nv} of the "
            f"independent joints, not {len(q)}"
        )
    if len(q) == robot.nv < robot.nq:
        q, own = robot.neutral(), q
        for name, value in zip(robot.v_names, own, strict=True):
            if name not in robot.q_names:
                raise TableError(f"--start needs {robot.nq} numbers: {', '.join(robot.q_names)}")
            q[robot.q_names.index(name)] = value
    return first_closed(robot, q)


# --- simulate ----------------------------------------------------------------------------------------------


def add_simulate(commands):
    parser = motion_command(
        commands, "simulate", simulate_robot, "the motion of a robot from a start, under torques"
    )
    parser.add_argument("--duration", type=float, default=1.0, metavar="S", help="s (1)")
    parser.add_argument("--dt", type=float, default=1e-3, metavar="S", help="a step, s (0.001)")
    parser.add_argument(
        "--start", type=float, nargs="+", metavar="Q",
        help="positions of all joints, or of the independent ones (zero; loops are closed)",
    )  # fmt: skip
    parser.add_argument(
        "--velocity", type=float, nargs="+", metavar="QD", help="of independent joints (zero)"
    )
    torque = parser.add_mutually_exclusive_group()
    torque.add_argument("--torque", type=float, nargs="+", metavar="TAU", help="of independent joints (zero)")
    torque.add_argument(
        "--torques", type=Path, metavar="FILE", help="a table with time and tau; between its rows linear"
    )
    parser.add_argument("--rule", choices=RULES, default="trapezoidal", help="of integration (trapezoidal)")
    parser.add_argument(
        "--coordinates", choices=COORDINATES, default="independent", help="of loops: which are integrated"
    )
    add_friction(parser, default=True)
    parser.add_argument(
        "--window", type=int, default=2, metavar="STEPS", help="solved at a time; 0: all at once (2)"
    )


def simulate_robot(robot, options):
    """Simulate and write; of a failure what there was before."""
    check_outputs(robot, options)
    start, torque = start_of(robot, options.start), options.torque
    if options.torques is not None:
        torque = _torques(robot, options)
    with progress("steps", None) as advance:
        finish(
            robot,
            options,
            lambda: simulate(
                robot, start, options.velocity, options.duration, dt=options.dt, torque=torque,
                backend=options.backend, rule=options.rule,
                coordinates=options.coordinates, window=options.window or None,
                friction=options.friction,
                progress=lambda done: advance(1),
            ),
        )  # fmt: skip


def _torques(robot, options):
    """(steps + 1, nv) of the table, at the times of the steps; held before and after it."""
    found = read_table(options.torques, robot, ("tau",), ("time", "tau"))
    times = found["time"][0] + options.dt * np.arange(round(options.duration / options.dt) + 1)
    return np.stack([np.interp(times, found["time"], column) for column in found["tau"].T], axis=1)


# --- inverse-trajectory ------------------------------------------------------------------------------------


def add_inverse_trajectory(commands):
    parser = motion_command(
        commands, "inverse-trajectory", torques_of_curve, "the torques that move a robot along a curve"
    )
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE",
        help="the curve, a table or recording: time and q of all joints or of the independent ones, "
        "qd and qdd if known",
    )  # fmt: skip
    add_recording(parser)
    parser.add_argument(
        "--stds", type=float, nargs=3, default=STDS, metavar=("Q", "QD", "QDD"),
        help="how well the curve is kept, standard deviations (1e-5 1e-4 1e-2)",
    )  # fmt: skip
    parser.add_argument(
        "--start", type=float, nargs="+", metavar="Q", help="a closed position near the first one"
    )


def torques_of_curve(robot, options):
    """Invert and write."""
    check_outputs(robot, options)
    curve = read_table(
        options.input,
        robot,
        ("q", "qd", "qdd"),
        ("time", "q"),
        options.topic,
        joints_map=joints_map(options),
    )
    start = start_of(robot, options.start) if options.start or curve["q"].shape[1] < robot.nq else None
    rates = {kind: curve[kind] for kind in ("qd", "qdd") if kind in curve}
    with progress("stages", None) as advance:
        finish(
            robot,
            options,
            lambda: inverse_trajectory(
                robot, curve["time"], curve["q"], **rates, start=start,
                stds=options.stds, backend=options.backend,
                progress=lambda done: advance(1),
            ),
        )  # fmt: skip


# --- smooth ------------------------------------------------------------------------------------------------


def add_smooth(commands):
    text = "motion and external torques from a recording, with standard deviations"
    parser = motion_command(commands, "smooth", smooth_recording, text)
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE",
        help="time, q, tau of the motors, and NAME.wx ... of sensors: .npz, .csv, .parquet; JointStates: a "
        "rosbag2 folder, .db3, .mcap, a ROS 1 .bag",
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
            help=f"{meaning} ({default:g})",
        )
    parser.add_argument(
        "--window", type=int, default=0, metavar="STEPS",
        help="of a fixed lag, as a node would estimate; 0: all readings tell about all steps (0)",
    )  # fmt: skip


def smooth_recording(robot, options):
    """Smooth and write; of a failure what there was before."""
    check_outputs(robot, options)
    sensors = load_sensors(options.sensors) if options.sensors else ()
    labels = dict(zip((s.name for s in sensors), fitting_labels(robot, sensors), strict=True))
    found = read_table(
        options.input,
        robot,
        ("q", "tau"),
        ("time", "q"),
        options.topic,
        joints_map=joints_map(options),
        more=labels,
    )
    for name in labels.keys() - found.keys():
        raise TableError(
            f"{options.input} has no readings of sensor {name!r}: columns {', '.join(labels[name])}, in an "
            f".npz file an array {name!r}; of a recording JointStates are read alone"
        )
    rising = _rising(found["time"])
    readings = {name: rows[rising] for name, rows in found.items() if name != "time"}
    noise = SmootherOptions(**{name: getattr(options, name) for name in NOISE})
    with progress("steps", int(rising.sum())) as advance:
        finish(
            robot,
            options,
            lambda: smooth(
                robot, found["time"][rising], readings, sensors, options=noise,
                window=options.window or None, backend=options.backend,
                progress=lambda done: advance(1),
            ),
        )  # fmt: skip


def _rising(time):
    """Rows (count,) later than all before them: a recording may repeat a stamp or go back."""
    return time > np.concatenate([[-np.inf], np.maximum.accumulate(time)[:-1]])


# --- what becomes of it ------------------------------------------------------------------------------------


def check_outputs(robot, options):
    """Raise TableError, before anything is computed, for what cannot be written."""
    known = (*robot.q_names, *robot.v_names)
    for name in options.show or ():
        if name not in known:
            raise TableError(f"--show: there is no {name!r}; there are {', '.join(dict.fromkeys(known))}")
    if options.plot is not None:
        check_plot(options.plot)
    if options.animate is not None and options.animate.suffix not in PAGES:
        raise TableError(f"{options.animate}: a page is written to {' or '.join(PAGES)}")


def finish(robot, options, compute):
    """Write the Trajectory of compute(), or, where that fails, what there was before, and raise."""
    started = time.perf_counter()
    try:
        motion = compute()
    except TrajectoryError as error:
        if error.solution is not None and len(error.solution):
            print(f"dynamics: {len(error.solution)} states before the error are kept", file=sys.stderr)
            _write(robot, options, error.solution)
        raise
    except ImportError as error:  # of an optional solver: what to install
        raise TableError(str(error)) from None
    _tell(motion, time.perf_counter() - started)
    _write(robot, options, motion)


def _tell(motion, elapsed):
    span = motion.time[-1] - motion.time[0]
    print(f"{motion.name}: {len(motion)} states of {span:g} s in {elapsed:.2f} s")
    width = max(len(name) for name in motion.residuals)
    for name, errors in motion.residuals.items():
        print(f"  {name:{width}} {errors.max():9.2e}")


def _write(robot, options, motion):
    if options.output is not None:
        arrays = motion.arrays
        with table_writer(options.output, motion, tuple(arrays), True) as write:
            write(arrays, motion.time)
        print(f"written: {options.output}")
    if options.plot is not None:
        curves = [c for c in motion.curves() if options.show is None or c.name in options.show]
        plot_curves(options.plot, motion.time - motion.time[0], curves, motion.name)
        print(f"written: {options.plot}")
    if options.animate is not None:
        print(f"written: {write_animation(options.animate, motion, partial(robot_drawing, robot))}")
