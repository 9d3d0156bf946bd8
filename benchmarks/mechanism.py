"""Trajectories: the four-bar of paper 2, a Panda and a spatial loop, against DOP853.

The paper's Table 1 gives position errors of 2.3e-3 m in dependent coordinates and of 17e-3 to 24e-3 m in
independent ones. Times are thread CPU time, the least mean over many steps.
"""

import os
import sys
import time

import harness
import mechanism_truth as truth
import numpy as np

sys.path.append(str(harness.HERE.parent / "examples" / "paper2"))

import paper_problems
from four_bar import FOUR_BAR_START, four_bar
from mechanism_estimation import estimation
from robots import robot

import dynamics_node as dn
from dynamics_demo.robots import differential
from dynamics_node.trajectory import (
    FixedLag,
    forward_graph,
    prior,
    robot_system,
    simulate,
)
from dynamics_node.trajectory.trajectory_graph import weights_of

WINDOWS = range(2, 11)
FALL = 5.0  # s
LIMITS = {"independent": (1e-5, 1e-4), "dependent": (5e-5, 5e-4)}  # m, m/s
PAPER = {"independent": "17e-3 to 24e-3", "dependent": "2.3e-3"}  # m
POSE = np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8])
COMPARED = 5  # steps of the window


# --- the four-bar -------------------------------------------------------------------------------------------


def forward_motion():
    """Rows of forward dynamics: RMS errors, their order in the step size, and residuals of the exact
    equations."""
    exact = truth.fall(FALL)
    for coordinates, limits in LIMITS.items():
        coarse, fine = (_errors(exact, coordinates, dt) for dt in (2e-3, 1e-3))
        for k, (what, unit) in enumerate((("q", "m"), ("velocity", "m/s"))):
            worst = fine[:, k].max()
            note = f"worst of windows 2..10; paper {PAPER[coordinates]} m" if k == 0 else "paper 0.021 m/s"
            yield _row(f"four-bar, {coordinates}, {what}", worst, unit, limits[k], note)
            least = (coarse[:, k] / fine[:, k]).min()
            name = f"four-bar, {coordinates}, {what}: error ratio at half the step"
            yield harness.Row(name, least, "times", "higher", target=3.9, reason="second order: 4")
        yield _row(f"four-bar, {coordinates}, exact equations", fine[:, 2].max(), "m, N m", 1e-9)


def _errors(exact, coordinates, dt):
    """(windows, 3): rms of q and of velocities, and the largest residual of exact factors."""
    t = dt * np.arange(round(FALL / dt) + 1)
    q, qd = truth.natural(*exact(t))
    errors = []
    for window in WINDOWS:
        motion = paper_problems.simulate(
            four_bar(), FOUR_BAR_START, steps=len(t) - 1, dt=dt, window=window, coordinates=coordinates
        )
        own = [motion.steps[name][: len(t), :4] for name in ("q", "qd")]
        rms = [np.sqrt(np.mean((x - y) ** 2)) for x, y in zip(own, (q, qd), strict=True)]
        residuals = [value.max() for name, value in motion.residuals.items() if "trapezoidal" not in name]
        errors.append([*rms, max(residuals)])
    return np.array(errors)


def inverse_motion():
    """Rows of inverse dynamics: one smooth turn of the crank."""
    t = 1e-3 * np.arange(5001)
    s = t / FALL
    z = 2 * np.pi * s**3 * (10 - 15 * s + 6 * s * s)
    zd = 2 * np.pi * 30 * (s * (1 - s)) ** 2 / FALL
    zdd = 2 * np.pi * 60 * s * (1 - s) * (1 - 2 * s) / FALL**2
    reference = np.array([truth.torque(*state) for state in zip(z, zd, zdd, strict=True)])
    curve = (x[:, None] for x in (z, zd, zdd))
    motion = paper_problems.inverse_trajectory(four_bar(), t, *curve, FOUR_BAR_START)
    crank = np.abs(motion.q[:, 4] - z).max()
    yield _row("four-bar, inverse, crank", 1e3 * crank, "mrad", 1.0, "paper: less than 1")
    error = np.abs(motion.tau[:, 0] - reference).max() / np.abs(reference).max()
    yield _row("four-bar, inverse, torque", error, "", 1e-3, "of the largest; against Lagrange's equation")


# --- robots released at rest -------------------------------------------------------------------------------


def free_motion():
    """Rows of released robots against our forward dynamics, integrated by the same rule."""
    differential, start = _differential()
    cases = {
        "Panda, 2 s": (robot("panda"), POSE, 2.0),
        "differential with rods, 1 s": (differential, start, 1.0),
    }
    for name, (robot_model, q, duration) in cases.items():
        motion = simulate(robot_model, q, duration=duration, dt=1e-3, friction=False)
        reference = truth.trapezoids(robot_model, q, 1e-3, len(motion))
        yield _row(
            f"{name}, positions", np.abs(motion.q - reference).max(), "rad", 1e-6, "the same rule, iterated"
        )


def _differential():
    mechanism = dn.parse_robot(differential())
    return mechanism, dn.close_loops(mechanism, np.array([0.7, 0.1, 0.7, 0.7]))


# --- speed --------------------------------------------------------------------------------------------------


def speed():
    """Rows of the time of a step of the fixed-lag smoother."""
    systems = {
        "four-bar": (four_bar(), np.array(FOUR_BAR_START), 20.0),
        "7-dof arm": (robot_system(robot("panda")), POSE, 300.0),
    }
    for name, (system, q, target) in systems.items():
        graph = forward_graph(system)
        known = prior(graph, {"q": q}, {"q": 1e-10, "qd": 1e-10})
        numbers = {"dt": 1e-3} | {weights_of(factor.name): 100.0 for factor in graph.weighted}
        ours = _step(_appending(graph, COMPARED, known, numbers), 40)
        yield _row(f"{name}, a step of window {COMPARED}", ours, "us", target)
        twice = _step(_appending(graph, 2 * COMPARED, known, numbers), 40) / ours
        yield _row(f"{name}, window {2 * COMPARED} against {COMPARED}", twice, "times", 2.2)


def _appending(graph, window, known, numbers):
    lag = FixedLag(graph, window, known, observable=False)
    lag.append(**numbers)
    return lag.append


def _step(call, rounds):
    """us: the least mean over 50 calls."""
    return min(_mean(call, 50) for _ in range(rounds))


def _mean(call, count):
    begin = time.thread_time_ns()
    for _ in range(count):
        call()
    return (time.thread_time_ns() - begin) / count / 1e3


def batch():
    """Rows of 2 s of a Panda at 1 kHz as one problem, and of 1 s; a fixed-lag solution is the initial
    guess."""
    arm = robot("panda")
    times = [_at_once(arm, duration) for duration in (1.0, 2.0)]
    yield _row("Panda, 2 s at 1 kHz as one batch", times[1], "s", 3.0)
    yield _row("Panda, 2 s against 1 s", times[1] / times[0], "times", 2.2)


def _at_once(arm, duration):
    """s: the least of four runs."""
    times = []
    for _ in range(4):
        begin = time.thread_time()
        simulate(arm, POSE, duration=duration, dt=1e-3, lag_steps=None, friction=False)
        times.append(time.thread_time() - begin)
    return min(times)


def _row(name, value, unit, target, reason=""):
    return harness.Row(name, float(value), unit, "lower", target=target, reason=reason)


PARTS = {
    part.__name__: part for part in (forward_motion, inverse_motion, free_motion, speed, batch, estimation)
}


def main():
    parser = harness.arguments("mechanism")
    parser.add_argument("--only", choices=PARTS, help="run one part")
    options = parser.parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    parts = [PARTS[options.only]] if options.only else PARTS.values()
    rows = [row for part in parts for row in part()]
    harness.finish("mechanism", rows, harness.versions("numpy", "scipy"), options.save)


if __name__ == "__main__":
    main()
