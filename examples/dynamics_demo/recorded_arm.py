"""A Panda in MuJoCo that differs from its description, with a tool, rotors and friction, records its motion
in a bag of JointStates, like a real robot.

`python -m dynamics_demo.recorded_arm FOLDER` writes FOLDER/panda.urdf and the bags FOLDER/moves and
FOLDER/unseen; `--trajectory FILE` (a JointTrajectory as YAML) sets the motion of the first bag.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import yaml
from scipy.interpolate import BPoly

from dynamics_demo.panda import PANDA_JOINTS, Motion, Noise, Sample, SimulatedArm, description
from dynamics_demo.pushed_arm import CENTER
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Dynamics, Inertial, with_numbers

PEAK = np.array([0.9, 0.5, 0.9, 0.6, 1.0, 0.8, 1.2])  # rad, away from CENTER
PERIOD, HARMONICS, RISE = 10.0, 5, 2.0  # s, and s of the transition from rest


def wandering(seed) -> Motion:
    """Random sums of sines about CENTER, from rest."""
    random, k = np.random.default_rng(seed), np.arange(1, HARMONICS + 1)[:, None]
    w, (a, b) = 2 * np.pi / PERIOD * k, random.normal(size=(2, HARMONICS, 7)) / k
    phases = w * np.linspace(0.0, PERIOD, 500)[:, None, None]
    scale = PEAK / np.abs((a * np.sin(phases) + b * np.cos(phases)).sum(1)).max(0)
    a, b = a * scale, b * scale

    def motion(t):
        s, c = np.sin(w * t), np.cos(w * t)
        q, qd = (a * s + b * c).sum(0), (w * (a * c - b * s)).sum(0)
        return _from_rest(t, q, qd, -(w * w * (a * s + b * c)).sum(0))

    return motion


def _from_rest(t, q, qd, qdd):
    """About CENTER, multiplied by a polynomial that rises from 0 to 1, with its derivatives."""
    x = min(t / RISE, 1.0)
    g, first = x**3 * (10 - 15 * x + 6 * x * x), 30 * (x * (1 - x)) ** 2 / RISE
    second = 60 * x * (1 - x) * (1 - 2 * x) / RISE**2
    return CENTER + g * q, g * qd + first * q, g * qdd + 2 * first * qd + second * q


def motion_of_file(path) -> Motion:
    """A JointTrajectory of the Panda as YAML, repeated periodically. Raises ValueError for missing joints."""
    trajectory = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    names, points = trajectory["joint_names"], trajectory["points"]
    if missing := [name for name in PANDA_JOINTS if name not in names]:
        raise ValueError(f"{path} has no {', '.join(missing)}")
    order = [names.index(name) for name in PANDA_JOINTS]
    since = [p["time_from_start"] for p in points]
    time = np.array([t["sec"] + 1e-9 * t["nanosec"] for t in since])
    states = [
        np.array([p[kind] for p in points])[:, order] for kind in ("positions", "velocities", "accelerations")
    ]
    curve = BPoly.from_derivatives(time, np.stack(states, axis=1))
    rate, change = curve.derivative(), curve.derivative(2)
    period = time[-1] - time[0]

    def motion(t):
        at = time[0] + t % period
        return curve(at), rate(at), change(at)

    return motion


# --- recordings ---------------------------------------------------------------------------------------------


STEP, RECORDED = 1e-3, 2  # s, and steps between messages
NOISE = Noise(position=1e-5, velocity=1e-3, torque=0.2)
GAINS = (400.0, 40.0)
SECONDS = 30.0
ROOT, HAND = "panda_link0", "panda_hand"
TOOL, TOOL_RADIUS, TOOL_AT = 0.7, 0.028, np.array([0.0, 0.03, 0.12])  # kg, m, m in the axes of the hand
VISCOUS = np.array([1.0, 1.2, 0.8, 0.9, 0.4, 0.4, 0.3])  # N m s/rad
COULOMB = np.array([1.2, 1.5, 1.0, 1.1, 0.6, 0.5, 0.4])  # N m
ROTORS = np.array([0.3, 0.3, 0.25, 0.25, 0.1, 0.1, 0.08])  # kg m^2


def truth(text) -> str:
    """URDF of the simulated robot: masses differ by up to 25 % and centers by up to 2 cm from the
    description, with a tool and friction. A URDF has no field for rotors."""
    random, links = np.random.default_rng(7), {}
    for link in read_description(text).links:
        if link.mass > 0 and link.name != ROOT:
            factor, moved = random.uniform(0.75, 1.25), random.uniform(-0.02, 0.02, 3)
            links[link.name] = Inertial(factor * link.inertia, factor * link.mass, link.com + moved)
    links[HAND] = _with_tool(links[HAND])
    friction = dict(zip(PANDA_JOINTS, map(Dynamics, VISCOUS, COULOMB), strict=True))
    return with_numbers(text, links, friction, ALL_FIGURES)


def _with_tool(hand):
    """The hand with a steel ball."""
    mass, away = hand.mass + TOOL, TOOL_AT - hand.com
    pair = hand.mass * TOOL / mass * (away @ away * np.eye(3) - np.outer(away, away))
    ball = 0.4 * TOOL * TOOL_RADIUS**2 * np.eye(3)
    return Inertial(hand.inertia + ball + pair, mass, hand.com + TOOL / mass * away)


def samples(motion: Motion, seed, seconds=SECONDS) -> Iterator[Sample]:
    """Reports of the robot, 500 times a second."""
    arm = SimulatedArm(truth(description()), motion, STEP, NOISE, seed, GAINS, ROTORS)
    steps = islice(iter(arm.step, None), round(seconds / STEP))
    return islice(steps, 0, None, RECORDED)


def write_bag(folder: Path, recorded: Iterator[Sample], start=1_700_000_000_000_000_000):
    """A rosbag2 of /joint_states. Raises ImportError with the installation command."""
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise ImportError("recordings need rosbags: pip install 'rosbags>=0.11.9'") from error
    store = get_typestore(Stores.ROS2_JAZZY)
    JointState, Header, Time = (
        store.types[f"{name}"]
        for name in ("sensor_msgs/msg/JointState", "std_msgs/msg/Header", "builtin_interfaces/msg/Time")
    )
    names = list(PANDA_JOINTS)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/joint_states", JointState.__msgtype__, typestore=store)
        for sample in recorded:
            stamp = start + round(sample.time * 1e9)
            header = Header(Time(*divmod(stamp, 1_000_000_000)), "")
            message = JointState(header, names, sample.q, sample.qd, sample.tau)
            writer.write(topic, stamp, store.serialize_cdr(message, JointState.__msgtype__))


def record(folder: Path, trajectory=None, seconds=SECONDS) -> tuple[Path, Path, Path]:
    """The description and two bags in a folder without bags, and truth.urdf next to them."""
    folder.mkdir(parents=True, exist_ok=True)
    urdf, moves, unseen = folder / "panda.urdf", folder / "moves", folder / "unseen"
    (folder / "truth.urdf").write_text(truth(description()), encoding="utf-8")
    urdf.write_text(description(), encoding="utf-8")
    motion = wandering(1) if trajectory is None else motion_of_file(trajectory)
    write_bag(moves, samples(motion, 1, seconds))
    write_bag(unseen, samples(wandering(2), 2, seconds))
    return urdf, moves, unseen


def main(arguments=None):
    """Exit code."""
    parser = argparse.ArgumentParser(prog="recorded_arm", description=__doc__)
    parser.add_argument("folder", type=Path, help="output folder of the description and the bags")
    parser.add_argument("--trajectory", type=Path, help="motion of the first bag (default: sums of sines)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"duration of each bag, s (default: {SECONDS:g})"
    )
    options = parser.parse_args(arguments)
    try:
        written = record(options.folder, options.trajectory, options.seconds)
    except (ImportError, OSError, ValueError) as error:
        print(f"recorded_arm: {error}", file=sys.stderr)
        return 2
    print("written:", *written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
