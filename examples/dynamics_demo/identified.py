"""A robot whose description is wrong, from a motion that tells much to the right one: a Panda in MuJoCo moves
and is recorded, its inertias, rotors and friction are identified, and torques of a motion that was not used
are compared with those of the description, of what was found, and of the truth."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics_demo.panda import PANDA_JOINTS, description
from dynamics_demo.recorded_arm import ROTORS, SECONDS, record
from dynamics_node.algorithms import load_robot, parse_robot
from dynamics_node.identification import Identified, RegressorModel, identify
from dynamics_node.identification.excitation import design_excitation, message_text
from dynamics_node.io import open_table
from dynamics_node.robot import inverse_dynamics

TERMS = ("inertia", "rotor", "viscous", "coulomb", "offset")
CUTOFF, POINTS = 10.0, 20.0  # Hz, and points a second of the trajectory
MOST = 1.05  # of the truth's RMS


class Compared(NamedTuple):
    """A motion that was not used: time (count,), measured torques and those of three robots (count, 7)."""

    time: np.ndarray
    measured: np.ndarray
    described: np.ndarray
    identified: np.ndarray
    true: np.ndarray

    def rms(self, torques):
        """Of measured less computed torques (7,)."""
        return np.sqrt(np.mean((self.measured - torques) ** 2, axis=0))


def main(seconds=SECONDS, plot="demo_identified.png"):
    """Excite, record, identify, compare, judge. The exit code."""
    print("demo: a motion that tells what a Panda is made of is looked for", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            trajectory = excited(Path(folder))
            print(f"a Panda in MuJoCo that is not as described moves for {seconds:g} s, twice", flush=True)
            urdf, moves, unseen = record(Path(folder), trajectory, seconds)
        except ImportError as error:
            print(f"demo: {error}")
            return 2
        found = identified(urdf, moves)
        compared = compare(found, urdf, unseen)
    print(f"{found.rows} states tell {found.base.count} base parameters")
    _print(compared)
    if plot:
        save_plot(compared, plot)
        print(f"drawn: {plot}")
    problems = list(shortcomings(compared))
    print("demo: passed" if not problems else f"demo: FAILED: {'; '.join(problems)}")
    return 1 if problems else 0


def excited(folder) -> Path:
    """A JointTrajectory from what is known, the description, within its limits."""
    found = design_excitation(parse_robot(description()), terms=TERMS, restarts=1)
    print(
        f"condition {found.before:.0f}, the best of {found.tried} random motions; {found.condition:.0f} now"
    )
    path = folder / "trajectory.yaml"
    path.write_text(message_text(found.message(POINTS)), encoding="utf-8")
    return path


def identified(urdf, bag) -> Identified:
    """From positions, velocities and torques of a bag."""
    robot = load_robot(urdf)
    return identify(robot, [_table(robot, bag).chunks], TERMS, "robust", cutoff=CUTOFF)


def compare(found: Identified, urdf, bag) -> Compared:
    """On another bag, of which accelerations are derivatives as well."""
    linear = found.linear
    chunks = list(_table(linear.robot, bag).chunks())
    rows = {
        kind: np.concatenate([chunk[kind] for chunk in chunks]) for kind in ("time", "q", "qd", "qdd", "tau")
    }
    there = np.isfinite(rows["qdd"]).all(axis=1)
    rows = {kind: values[there] for kind, values in rows.items()}
    W = linear.matrix(rows["q"], rows["qd"], rows["qdd"])
    of = [W @ parameters for parameters in (linear.described, found.parameters, true_parameters(urdf))]
    return Compared(rows["time"] - rows["time"][0], rows["tau"], *of)


def true_parameters(urdf):
    """Of the robot that moves, beside its description."""
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
            yield f"{name}: {value:.3g} N m beside the torque, the truth {most / MOST:.3g}"
    if not (published > own).all():
        yield "the description is as good"


def _print(compared):
    print(f"RMS of measured less computed torque over {len(compared.time)} states that were not used, N m")
    print(f"{'joint':13} {'described':>10} {'identified':>10} {'truth':>10}")
    columns = (compared.described, compared.identified, compared.true)
    for name, *values in zip(PANDA_JOINTS, *map(compared.rms, columns), strict=True):
        print(f"{name:13} " + " ".join(f"{value:10.3f}" for value in values))


def save_plot(compared, path):
    """Torques of four joints, and what remains at every one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(5, 1, figsize=(10, 12), layout="constrained")
    shown = compared.time <= 15.0
    for axis, k in zip(axes, (0, 1, 3, 6), strict=False):
        lines = (("measured", "0.6"), ("described", "tab:red"), ("identified", "tab:blue"))
        for name, colour in lines:
            values = getattr(compared, name)[shown, k]
            axis.plot(compared.time[shown], values, color=colour, linewidth=1.0, label=name)
        axis.set_ylabel(f"{PANDA_JOINTS[k]}\n[N m]")
        axis.grid(alpha=0.3)
    axes[0].set_title("Panda, a motion that was not used: torques of its motors")
    axes[0].legend(ncols=3, loc="upper right", fontsize=8)
    axes[3].set_xlabel("time [s]")
    places = np.arange(len(PANDA_JOINTS))
    for offset, (name, colour) in zip((-0.27, 0.0, 0.27), (*lines[1:], ("true", "tab:green")), strict=True):
        axes[4].bar(places + offset, compared.rms(getattr(compared, name)), 0.25, color=colour, label=name)
    axes[4].set_xticks(places, PANDA_JOINTS)
    axes[4].set_ylabel("RMS error [N m]")
    axes[4].legend(fontsize=8)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
