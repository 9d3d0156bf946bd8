"""Section 7 of paper 2: its four-bar falls, and follows a curve, as factor graphs over time.

python examples/paper2/four_bar.py; the exit code is 1 if an error exceeds its limit.
"""

import argparse
import sys
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import four_bar_truth as truth
import numpy as np
from natural_coordinates import Angle, Bar, planar_drawing, planar_system
from paper_problems import PlanarSystem, inverse_trajectory, simulate

from dynamics_node.trajectory import Trajectory, write_animation

FOUR_BAR_POINTS = {"A": (0.0, 0.0), "D": (4.0, 0.0), "P1": None, "P2": None}
FOUR_BAR_BLOCKS = (
    Bar("A", "P1", 1.0, mass=1.0),
    Bar("P1", "P2", 2.0, mass=2.0),
    Bar("P2", "D", 13.0**0.5, mass=4.0),
    Angle("theta", "A", "P1"),
)
FOUR_BAR_START = (1.0, 0.0, 1.0, 2.0, 0.0)  # x and y of P1 and P2, theta

DT = 1e-3  # s
PAPER = {  # RMSE of q in m (Table 1), by window: dependent and independent coordinates
    2: (0.002361, 0.023834),
    5: (0.002348, 0.016647),
    10: (0.002332, 0.016677),
}
MOST = {"dependent": (5e-5, 5e-4), "independent": (1e-5, 1e-4)}  # RMSE of q in m, of velocities in m/s
MOST_ANGLE, MOST_TORQUE = 1e-3, 1e-3  # rad; of the largest torque


class Run(NamedTuple):
    """A simulation compared with the truth: errors (count, 4) of x and y of P1 and P2, and of their
    velocities."""

    coordinates: str
    window: int
    motion: Trajectory
    errors: np.ndarray
    rate_errors: np.ndarray

    @property
    def rmse(self):
        """m and m/s."""
        return tuple(float(np.sqrt(np.mean(np.square(e)))) for e in (self.errors, self.rate_errors))


class Following(NamedTuple):
    """A curve of the crank: wanted angle (count,), torques by trajectory and by dense algebra, and the angle
    simulated with the former."""

    time: np.ndarray
    wanted: np.ndarray
    torque: np.ndarray
    expected: np.ndarray
    followed: np.ndarray


@cache
def four_bar() -> PlanarSystem:
    """The mechanism of Fig. 6: crank A P1, coupler P1 P2, rocker P2 D; the crank angle is independent."""
    return planar_system("four_bar", FOUR_BAR_POINTS, FOUR_BAR_BLOCKS, ("theta",), gravity=(0.0, -9.8))


def main():
    """Exit code of `reproduce`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of the fall, s (default: 5)")
    parser.add_argument(
        "--plot",
        default="four_bar.png",
        help="plot, with a page next to it (default: four_bar.png); '' for none",
    )
    return reproduce(**vars(parser.parse_args()))


def reproduce(seconds=5.0, plot="four_bar.png"):
    """Print, plot and judge. Returns the exit code."""
    print(f"a four-bar falls for {seconds:g} s, in steps of {DT * 1e3:g} ms; truth by DOP853", flush=True)
    time = DT * np.arange(round(seconds / DT) + 1)
    q, qd = truth.free_motion(time)
    runs = [
        simulated(coordinates, window, time, q, qd)
        for window in PAPER
        for coordinates in ("dependent", "independent")
    ]
    following = followed(time)
    _print(runs, following)
    if plot:
        save_plot(runs, following, plot)
        print(f"written: {plot}")
    if plot and find_spec("viser"):  # an extra: pages that play a motion
        drawing = partial(planar_drawing, FOUR_BAR_POINTS, FOUR_BAR_BLOCKS)
        page, title = Path(plot).with_suffix(".html"), "The paper's four-bar"
        print(f"written: {write_animation(page, runs[0].motion, drawing, title)}")
    problems = [*_problems_of_runs(runs), *_problems_of_following(following)]
    print("passed" if not problems else f"FAILED: {'; '.join(problems)}")
    return 1 if problems else 0


def simulated(coordinates, window, time, q, qd) -> Run:
    """Simulation by the compiled fixed-lag smoother, compared with q, qd (count, 4)."""
    motion = simulate(
        four_bar(), FOUR_BAR_START, steps=len(time) - 1, dt=DT, coordinates=coordinates, window=window
    )
    rates = motion.steps["qd"][:, :4]
    return Run(coordinates, window, motion, motion.q[:, :4] - q, rates - qd)


def crank(time):
    """Angle, rate and acceleration (count,) of a swing from the start to below A and back, where the
    mechanism hangs; upward, the smallest torque error would make it fall off its curve."""
    w = 2 * np.pi * 0.4
    angle = -0.9 * (1.0 - np.cos(w * time))
    return angle, -0.9 * w * np.sin(w * time), -0.9 * w * w * np.cos(w * time)


def followed(time) -> Following:
    """Torques along the curve in the four stages of the paper, and a simulation with them."""
    wanted, rate, acceleration = crank(time)
    curve = (wanted[:, None], rate[:, None], acceleration[:, None])
    solution = inverse_trajectory(four_bar(), time, *curve, FOUR_BAR_START)
    states = zip(solution.q[:, :4], solution.steps["qd"][:, :4], acceleration, strict=True)
    expected = np.array([truth.crank_torque(*state) for state in states])
    motion = simulate(four_bar(), FOUR_BAR_START, steps=len(time) - 1, dt=DT, tau=solution.tau)
    return Following(time, wanted, solution.tau[:, 0], expected, motion.q[:, 4])


def _problems_of_runs(runs):
    for run in runs:
        for error, most, unit in zip(run.rmse, MOST[run.coordinates], ("m", "m/s"), strict=True):
            if not error <= most:
                yield f"window {run.window}, {run.coordinates}: {error:.2g} {unit} is more than {most:g}"


def _problems_of_following(following):
    angle = np.abs(following.followed - following.wanted).max()
    torque = np.abs(following.torque - following.expected).max() / np.abs(following.expected).max()
    if not angle <= MOST_ANGLE:
        yield f"the crank deviates by {angle:.2g} rad from its curve"
    if not torque <= MOST_TORQUE:
        yield f"its torque deviates by {torque:.2g} from the analytic one"


def _print(runs, following):
    print("RMSE of x and y of P1 and P2, and of their velocities; in parentheses the paper's Table 1")
    print("window  coordinates       q [m]    (paper)     velocity [m/s]  loop error [m]")
    for run in runs:
        of_paper = PAPER[run.window][run.coordinates == "independent"]
        opened = np.abs(run.motion.residuals["position constraint"]).max()
        error, rate = run.rmse
        print(
            f"{run.window:6}  {run.coordinates:12} {error:10.2e}  ({of_paper:.6f})  {rate:12.2e}  "
            f"{opened:16.0e}"
        )
    off = np.abs(following.followed - following.wanted).max() * 1e3
    torque = np.abs(following.torque - following.expected).max()
    print(f"inverse dynamics: the crank follows its curve to {off:.2g} mrad (paper: less than 1 mrad);")
    print(
        f"its torque agrees with dense algebra to {torque:.2g} N m of {np.abs(following.expected).max():.3g}"
    )


def save_plot(runs, following, path):
    """Plots like Figs. 7 and 8 of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(15, 7), layout="constrained")
    time, first = following.time, runs[0].motion
    for k, name in enumerate(first.q_names[:4]):
        axes[0, 0].plot(time, first.q[:, k], label=name)
    _labelled(axes[0, 0], "a four-bar falls", "m")
    for run in (run for run in runs if run.window == min(PAPER)):
        axes[0, 1].semilogy(time, _largest_errors(run.errors), label=f"{run.coordinates} coordinates")
        axes[0, 2].semilogy(time, _largest_errors(run.rate_errors), label=f"{run.coordinates} coordinates")
    of_paper = PAPER[min(PAPER)][0]
    axes[0, 1].axhline(of_paper, color="grey", linestyle="--", label="paper's RMSE, dependent")
    _labelled(axes[0, 1], f"error of q, window {min(PAPER)}", "m")
    _labelled(axes[0, 2], "error of velocities", "m/s")
    axes[1, 0].plot(time, following.wanted, label="wanted")
    axes[1, 0].plot(time, following.followed, "--", label="followed")
    _labelled(axes[1, 0], "angle of the crank", "rad")
    axes[1, 1].plot(time, following.torque, label="trajectory")
    axes[1, 1].plot(time, following.expected, "--", label="dense algebra")
    _labelled(axes[1, 1], "torque at the crank", "N m")
    axes[1, 2].plot(time, 1e3 * (following.followed - following.wanted), label="followed minus wanted")
    _labelled(axes[1, 2], "error of the angle", "mrad")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _largest_errors(errors):
    """Largest error per step, bounded below for logarithmic axes."""
    return np.maximum(np.abs(errors).max(axis=1), 1e-12)


def _labelled(axis, title, unit):
    axis.set_title(title)
    axis.set_xlabel("s")
    axis.set_ylabel(unit)
    axis.legend(loc="best", fontsize="small")
    axis.grid(alpha=0.3)


if __name__ == "__main__":
    sys.exit(main())
