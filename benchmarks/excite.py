"""Motions for identification beside the best of 1000 random ones: condition numbers of the base regressor,
period, harmonics and limits of both the same.

Random motions are Fourier series as well, each joint as far and fast as its limits let it; half of them start
at rest as ours do, the others need not. Torques decide for all joints together. Everything is judged on a
grid ten times finer than the one that was optimised on, and limits besides between its points.
"""

import os
import time

import harness
import numpy as np
from robots import PANDA, robot_file

import dynamics_node as dn

PERIOD, HARMONICS = 10.0, 5
SAMPLES = 20 * HARMONICS  # what is optimised on
FINE = PERIOD * np.arange(10 * SAMPLES) / (10 * SAMPLES)
BETWEEN = np.sort(np.random.default_rng(1).uniform(0.0, PERIOD, 5000))
COUNT = 1000
TARGET = 0.5
SECONDS = 120.0
SHRINK = 0.9
ROBOTS = {"panda": PANDA, "ur5": None}


class Random:
    """Motions of a robot within the bounds that a found one had."""

    def __init__(self, found, seed=0):
        self._found, self._bounds, self._random = found, found.problem.bounds, np.random.default_rng(seed)
        self._k = np.arange(1, HARMONICS + 1)
        self._inverse = dn.build(found.robot, dn.inverse_dynamics(found.robot))

    def states(self, at_rest):
        """q, qd, qdd (samples, nv) on the fine grid."""
        nv, k, w = self._found.robot.nv, self._k, 2 * np.pi / PERIOD * self._k
        a, b = self._random.normal(size=(2, nv, HARMONICS))
        if at_rest:  # projected: sum k a = 0, sum k^2 b = 0
            a, b = (
                x - np.outer(x @ weight, weight) / (weight @ weight)
                for x, weight in ((a, k), (b, k.astype(float) ** 2))
            )
        s, c = np.sin(np.outer(FINE, w)), np.cos(np.outer(FINE, w))
        q, qd = s @ a.T + c @ b.T, (w * c) @ a.T - (w * s) @ b.T
        qdd = -(w * w * s) @ a.T - (w * w * c) @ b.T
        reach = np.max(
            [
                np.ptp(q, axis=0) / (2 * self._bounds.half),
                np.abs(qd).max(axis=0) / self._bounds.velocity,
                np.abs(qdd).max(axis=0) / self._bounds.acceleration,
            ],
            axis=0,
        )
        q, qd, qdd = q / reach, qd / reach, qdd / reach
        low, high = (self._bounds.centre + side * self._bounds.half for side in (-1, 1))
        down, up = low - q.min(axis=0), high - q.max(axis=0)
        middle = down + self._random.uniform(size=nv) * (up - down)
        return self._within_torques(middle, q, qd, qdd)

    def _within_torques(self, middle, q, qd, qdd):
        """Smaller by SHRINK until torques keep within their limits; None where they never do."""
        for _ in range(10):
            if np.all(np.abs(self._inverse(middle + q, qd, qdd)) <= self._bounds.effort):
                return middle + q, qd, qdd
            q, qd, qdd = SHRINK * q, SHRINK * qd, SHRINK * qdd
        return None


def condition(found, states):
    """Of the base regressor, in the units that it was found for."""
    W = found.base.reduced(found.linear.matrix(*states)) * found.problem.regressor.sizes
    return np.linalg.cond(W.reshape(-1, W.shape[-1]))


def best_of_random(found):
    """The least condition of COUNT motions."""
    random, told = Random(found), []
    while len(told) < COUNT:
        states = random.states(at_rest=len(told) % 2 == 0)
        if states is not None:
            told.append(condition(found, states))
    return min(told)


def most_used(found, time):
    """The largest share of any limit at these times, by what the limits are applied to themselves."""
    bounds, (q, qd, qdd) = found.problem.bounds, found.states(time)
    tau = found.torques(time)
    return max(
        np.abs(part / limit).max()
        for part, limit in (
            (q - bounds.centre, bounds.half),
            (qd, bounds.velocity),
            (qdd, bounds.acceleration),
            (tau, bounds.effort),
        )
    )


def rows_of(name, joints, what, target, **choices):
    model = dn.load_robot(robot_file(name), joints=joints)
    begin = time.process_time()
    found = dn.design_excitation(model, PERIOD, HARMONICS, **choices)
    took = time.process_time() - begin
    yield harness.Row(
        f"{name} condition, {what}",
        condition(found, found.states(FINE)),
        "",
        "lower",
        f"best of {COUNT} random",
        best_of_random(found),
        target=target,
        reason=f"{found.base.count} base parameters",
    )
    for told, grid in (("10 x finer grid", FINE), ("5000 random times", BETWEEN)):
        used = most_used(found, grid)
        yield harness.Row(f"{name} most of a limit, {told}", used, "", "lower", target=1.0)
    yield harness.Row(f"{name} search, CPU time", took, "s", "lower", target=SECONDS, reason="with compiling")


def main():
    options = harness.arguments("excite").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    rows = []
    for name, joints in ROBOTS.items():
        rows += rows_of(name, joints, "usual sizes", TARGET)
        rows += rows_of(name, joints, "inertias, SI", TARGET, units="si", terms=("inertia",))
        rows += rows_of(name, joints, "all, SI", None, units="si")
    harness.finish("excite", rows, harness.versions("numpy", "scipy"), options.save)


if __name__ == "__main__":
    main()
