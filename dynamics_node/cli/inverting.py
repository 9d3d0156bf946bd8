"""dynamics inverse-trajectory: what torques move a robot along a curve."""

from pathlib import Path

from dynamics_node.cli.options import (
    add_recording,
    check_outputs,
    finish,
    joints_map,
    motion_command,
    progress,
    start_of,
)
from dynamics_node.io import read_table
from dynamics_node.trajectory import inverse_trajectory
from dynamics_node.trajectory.inverse_problem import STDS


def add_parser(commands):
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
