"""Identification of a robot with a wrong description: a Panda in MuJoCo moves along an excitation trajectory
and is recorded. Its inertias, rotors and friction are identified. Torques of unseen motion are compared with
those of the description, the identified robot, and the true robot."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics_demo.panda import PANDA_JOINTS, description
from dynamics_demo.recorded_arm import ROTORS, SECONDS, record
from dynamics_node.identification import Identified, RegressorModel, identify
from dynamics_node.identification.excitation import design_excitation
from dynamics_node.io import open_table
from dynamics_node.io.motion_files import message_text
from dynamics_node.robot import inverse_dynamics, load_robot, parse_robot

TERMS = ("inertia", "rotor", "viscous", "coulomb", "offset")
CUTOFF, POINTS = 10.0, 20.0  # Hz, and points per second of the trajectory
MOST = 1.05  # of the RMS of the true robot


class Compared(NamedTuple):
    """Unseen motion: time (count,), measured torques and those of three robots (count, 7)."""

    time: np.ndarray
    measured: np.ndarray
    described: np.ndarray
    identified: np.ndarray
    true: np.ndarray

    def rms(self, torques):
        """Root mean squares (7,) of measured minus computed torques."""
        return np.sqrt(np.mean((self.measured - torques) ** 2, axis=0))


def main(seconds=SECONDS, plot="demo_identified.png"):
    """Excite, record, identify, compare and judge. Returns the exit code."""
    print("demo: designing an excitation trajectory for a Panda", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            trajectory = excited(Path(folder))
            print(
                f"a Panda in MuJoCo that differs from its description moves for {seconds:g} s, twice",
                flush=True,
            )
            urdf, moves, unseen = record(Path(folder), trajectory, seconds)
        except ImportError as error:
            print(f"demo: {error}")
            return 2
        result = identified(urdf, moves)
        compared = compare(result, urdf, unseen)
    print(f"{result.rows} states, {result.base.count} base parameters")
    _print(compared)
    if plot:
        save_plot(compared, plot)
        print(f"written: {plot}")
    problems = list(shortcomings(compared))
    print("demo: passed" if not problems else f"demo: FAILED: {'; '.join(problems)}")
    return 1 if problems else 0


def excited(folder) -> Path:
    """Design a JointTrajectory from the description, within its limits."""
    trajectory = design_excitation(parse_robot(description()), terms=TERMS, restarts=1)
    print(
        f"condition {trajectory.condition:.0f}, best of {trajectory.tried} random motions: "
        f"{trajectory.before:.0f}"
    )
    path = folder / "trajectory.yaml"
    path.write_text(message_text(trajectory.message(POINTS)), encoding="utf-8")
    return path


def identified(urdf, bag) -> Identified:
    """Identify from positions, velocities and torques of a bag."""
    robot = load_robot(urdf)
    return identify(robot, [_table(robot, bag).chunks], TERMS, "robust", cutoff=CUTOFF)


def compare(result: Identified, urdf, bag) -> Compared:
    """Compare on another bag, whose accelerations are also derivatives."""
    linear = result.linear
    chunks = list(_table(linear.robot, bag).chunks())
    rows = {
        kind: np.concatenate([chunk[kind] for chunk in chunks]) for kind in ("time", "q", "qd", "qdd", "tau")
    }
    complete = np.isfinite(rows["qdd"]).all(axis=1)
    rows = {kind: values[complete] for kind, values in rows.items()}
    W = linear.matrix(rows["q"], rows["qd"], rows["qdd"])
    torques = [W @ parameters for parameters in (linear.described, result.parameters, true_parameters(urdf))]
    return Compared(rows["time"] - rows["time"][0], rows["tau"], *torques)


def true_parameters(urdf):
    """Parameters of the true robot, stored next to its description."""
    robot = load_robot(Path(urdf).with_name("truth.urdf"))
    linear = RegressorModel(robot, TERMS)
    parameters = linear.described.copy()
    parameters[linear.places("rotor")] = ROTORS
    return parameters


def _table(robot, bag):
    return open_table(bag, robot, inverse_dynamics(robot), measured=True, cutoff=CUTOFF)


def shortcomings(compared):
    best, own, published = map(compared.rms, (compared.true, compared.identified, compared.described))
    for name, most, value in zip(PANDA_JOINTS, MOST * best, own, strict=True):
        if not value <= most:
            yield f"{name}: error {value:.3g} N m, that of the true robot {most / MOST:.3g} N m"
    if not (published > own).all():
        yield "the description is no worse"


def _print(compared):
    print(f"RMS of measured minus computed torque over {len(compared.time)} unseen states, N m")
    print(f"{'joint':13} {'described':>10} {'identified':>10} {'truth':>10}")
    columns = (compared.described, compared.identified, compared.true)
    for name, *values in zip(PANDA_JOINTS, *map(compared.rms, columns), strict=True):
        print(f"{name:13} " + " ".join(f"{value:10.3f}" for value in values))


def save_plot(compared, path):
    """Torques of four joints, and the errors of all joints."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(5, 1, figsize=(10, 12), layout="constrained")
    visible = compared.time <= 15.0
    for axis, k in zip(axes, (0, 1, 3, 6), strict=False):
        lines = (("measured", "0.6"), ("described", "tab:red"), ("identified", "tab:blue"))
        for name, color in lines:
            values = getattr(compared, name)[visible, k]
            axis.plot(compared.time[visible], values, color=color, linewidth=1.0, label=name)
        axis.set_ylabel(f"{PANDA_JOINTS[k]}\n[N m]")
        axis.grid(alpha=0.3)
    axes[0].set_title("Panda, unseen motion: motor torques")
    axes[0].legend(ncols=3, loc="upper right", fontsize=8)
    axes[3].set_xlabel("time [s]")
    places = np.arange(len(PANDA_JOINTS))
    for offset, (name, color) in zip((-0.27, 0.0, 0.27), (*lines[1:], ("true", "tab:green")), strict=True):
        axes[4].bar(places + offset, compared.rms(getattr(compared, name)), 0.25, color=color, label=name)
    axes[4].set_xticks(places, PANDA_JOINTS)
    axes[4].set_ylabel("RMS error [N m]")
    axes[4].legend(fontsize=8)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
