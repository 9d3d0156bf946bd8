"""What commands about trajectories share: the robot, and what becomes of a motion."""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.cli.robot import robot_command
from dynamics_node.io import TableError, check_plot, plot_curves, table_writer
from dynamics_node.trajectory import TrajectoryError, robot_drawing, write_animation

BACKENDS = ("auto", "c", "numpy")
PAGES = (".html", ".htm")


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


# --- what becomes of it -------------------------------------------------------------------------------------


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
