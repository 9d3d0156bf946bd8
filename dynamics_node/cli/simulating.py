"""dynamics simulate: the motion of a robot from a start, under torques."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.options import check_outputs, finish, motion_command, progress, start_of
from dynamics_node.io import read_table
from dynamics_node.trajectory import simulate
from dynamics_node.trajectory.graphs import COORDINATES, RULES


def add_parser(commands):
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
    parser.add_argument(
        "--no-friction", action="store_true", help="joints have no damping, friction, springs and offsets"
    )
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
                friction=not options.no_friction,
                progress=lambda done: advance(1),
            ),
        )  # fmt: skip


def _torques(robot, options):
    """(steps + 1, nv) of the table, at the times of the steps; held before and after it."""
    found = read_table(options.torques, robot, ("tau",), ("time", "tau"))
    times = found["time"][0] + options.dt * np.arange(round(options.duration / options.dt) + 1)
    return np.stack([np.interp(times, found["time"], column) for column in found["tau"].T], axis=1)
