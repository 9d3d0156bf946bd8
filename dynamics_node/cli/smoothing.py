"""dynamics smooth: what a robot did and what pushed on it, from a recording with noise."""

from pathlib import Path

import numpy as np

from dynamics_node.cli.options import (
    add_recording,
    check_outputs,
    finish,
    joints_map,
    motion_command,
    progress,
)
from dynamics_node.io import TableError, read_table
from dynamics_node.robot.sensor_fitting import fitting_labels
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.trajectory import SmootherOptions, smooth

NOISE = {
    "encoder_std": "of a reading of a position, rad or m",
    "torque_std": "of the torques of the motors, N m or N",
    "jerk_density": "of white jerk, rad²/s⁵ or m²/s⁵: how fast accelerations change",
    "external_torque_density": "of the random walk of torques from outside, (N m)²/s or N²/s",
}


def add_parser(commands):
    text = "motion and external torques from a recording, with standard deviations"
    parser = motion_command(commands, "smooth", smooth_recording, text)
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE",
        help="time, q, tau of the motors, and NAME.wx ... of sensors: .npz, .csv, .parquet; JointStates: a "
        "rosbag2 folder, .db3, .mcap, a ROS 1 .bag",
    )  # fmt: skip
    add_recording(parser)
    parser.add_argument(
        "--sensors", metavar="FILE", help="YAML of IMUs, gyros, accelerometers: see docs/sensors.md"
    )
    for name, text in NOISE.items():
        default = getattr(SmootherOptions(), name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            default=default,
            metavar="X",
            help=f"{text} ({default:g})",
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
