"""A Panda in MuJoCo whose bodies are not those of its description, with a tool, rotors and friction, records
its motion as a robot does: a bag of JointStates.

`python -m dynamics_node.demo.recorded_arm FOLDER` writes FOLDER/panda.urdf and the bags FOLDER/moves and
FOLDER/unseen; with `--trajectory FILE` (a JointTrajectory as YAML) the first bag is of that.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from dynamics_node.demo.followed import motion_of_file, wandering
from dynamics_node.demo.robots import PANDA_JOINTS
from dynamics_node.demo.simulated_arm import Motion, Noise, Sample, SimulatedArm, description

STEP, RECORDED = 1e-3, 2  # s, and steps from one message to the next
NOISE = Noise(position=1e-5, velocity=1e-3, torque=0.2)
GAINS = (400.0, 40.0)
SECONDS = 30.0
TOOL, TOOL_AT = 0.7, np.array([0.0, 0.03, 0.12])  # kg, m in the axes of the hand
VISCOUS = np.array([1.0, 1.2, 0.8, 0.9, 0.4, 0.4, 0.3])  # N m s/rad
COULOMB = np.array([1.2, 1.5, 1.0, 1.1, 0.6, 0.5, 0.4])  # N m
ROTORS = np.array([0.3, 0.3, 0.25, 0.25, 0.1, 0.1, 0.08])  # kg m^2


def differs(mujoco, model):
    """Make it another robot than the description: masses 25 % and centres of mass 2 cm off, and so on."""
    random = np.random.default_rng(7)
    for name in (*(f"panda_link{k}" for k in range(1, 8)), "panda_hand"):
        body, factor = model.body(name).id, random.uniform(0.75, 1.25)
        model.body_mass[body] *= factor
        model.body_inertia[body] *= factor
        model.body_ipos[body] += random.uniform(-0.02, 0.02, 3)
    _carry_tool(model, model.body("panda_hand").id)
    at = [model.joint(name).dofadr[0] for name in PANDA_JOINTS]
    model.dof_damping[at], model.dof_frictionloss[at], model.dof_armature[at] = VISCOUS, COULOMB, ROTORS
    mujoco.mj_setConst(model, mujoco.MjData(model))


def _carry_tool(model, body):
    """A point mass more. Its inertia about the new centre of mass is added as that of a ball, which is a body
    that can be."""
    mass, at = model.body_mass[body], model.body_ipos[body].copy()
    away = TOOL_AT - at
    model.body_mass[body] = mass + TOOL
    model.body_ipos[body] = (mass * at + TOOL * TOOL_AT) / (mass + TOOL)
    model.body_inertia[body] += mass * TOOL / (mass + TOOL) * (away @ away) * 2 / 3


def samples(motion: Motion, seed, seconds=SECONDS) -> Iterator[Sample]:
    """What the robot reports, 500 times a second."""
    arm = SimulatedArm(description(), motion, STEP, NOISE, seed, GAINS, differs)
    steps = islice(iter(arm.step, None), round(seconds / STEP))
    return islice(steps, 0, None, RECORDED)


def write_bag(folder: Path, recorded: Iterator[Sample], start=1_700_000_000_000_000_000):
    """A rosbag2 of /joint_states. Raises ImportError that says what to install."""
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise ImportError("recordings are written by rosbags: pip install 'rosbags>=0.11.9'") from error
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
    """The description and the two bags, in a folder that must not hold them yet."""
    folder.mkdir(parents=True, exist_ok=True)
    urdf, moves, unseen = folder / "panda.urdf", folder / "moves", folder / "unseen"
    urdf.write_text(description(), encoding="utf-8")
    motion = wandering(1) if trajectory is None else motion_of_file(trajectory)
    write_bag(moves, samples(motion, 1, seconds))
    write_bag(unseen, samples(wandering(2), 2, seconds))
    return urdf, moves, unseen


def main(arguments=None):
    """The exit code."""
    parser = argparse.ArgumentParser(prog="recorded_arm", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the description and the bags are written")
    parser.add_argument("--trajectory", type=Path, help="what the first bag is of; by default sums of sines")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each bag ({SECONDS:g})")
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
