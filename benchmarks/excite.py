"""Designed excitation trajectories against the best of 1000 random ones, by the condition of the base
regressor.

Random motions are Fourier series with the same period, harmonics and limits; every joint uses its full range.
Half of them start at rest, like the designed ones. A common factor enforces the torque limits. The evaluation
grid is ten times finer than that of the optimization; limits are also checked at random times.
"""

import os
import time

import harness
import numpy as np
from robots import PANDA, robot_file

import dynamics_node as dn

PERIOD, HARMONICS = 10.0, 5
SAMPLES = 20 * HARMONICS  # of the optimization
FINE = PERIOD * np.arange(10 * SAMPLES) / (10 * SAMPLES)
BETWEEN = np.sort(np.random.default_rng(1).uniform(0.0, PERIOD, 5000))
COUNT = 1000
TARGET = 0.5
SECONDS = 120.0
SHRINK = 0.9
ROBOTS = {"panda": PANDA, "ur5": None}


class Random:
    """Random motions of the robot within the bounds of a designed trajectory."""

    def __init__(self, designed, seed=0):
        self._designed, self._bounds, self._random = (
            designed,
            designed.problem.bounds,
            np.random.default_rng(seed),
        )
        self._k = np.arange(1, HARMONICS + 1)
        self._inverse = dn.build(designed.robot, dn.inverse_dynamics(designed.robot))

    def states(self, at_rest):
        """q, qd, qdd (samples, nv) on the fine grid."""
        nv, k, w = self._designed.robot.nv, self._k, 2 * np.pi / PERIOD * self._k
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
        low, high = (self._bounds.center + side * self._bounds.half for side in (-1, 1))
        down, up = low - q.min(axis=0), high - q.max(axis=0)
        middle = down + self._random.uniform(size=nv) * (up - down)
        return self._within_torques(middle, q, qd, qdd)

    def _within_torques(self, middle, q, qd, qdd):
        """The motion, scaled by SHRINK until torques are within their limits, or None."""
        for _ in range(10):
            if np.all(np.abs(self._inverse(middle + q, qd, qdd)) <= self._bounds.effort):
                return middle + q, qd, qdd
            q, qd, qdd = SHRINK * q, SHRINK * qd, SHRINK * qdd
        return None


def condition(designed, states):
    """The condition number of the base regressor, in the units of the optimization."""
    W = designed.base.reduced(designed.linear.matrix(*states)) * designed.problem.regressor.sizes
    return np.linalg.cond(W.reshape(-1, W.shape[-1]))


def best_of_random(designed):
    """The least condition of COUNT motions."""
    random, conditions = Random(designed), []
    while len(conditions) < COUNT:
        states = random.states(at_rest=len(conditions) % 2 == 0)
        if states is not None:
            conditions.append(condition(designed, states))
    return min(conditions)


def largest_limit_share(designed, times):
    """The largest share of any limit that the trajectory uses at these times."""
    bounds, (q, qd, qdd) = designed.problem.bounds, designed.states(times)
    tau = designed.torques(times)
    return max(
        np.abs(part / limit).max()
        for part, limit in (
            (q - bounds.center, bounds.half),
            (qd, bounds.velocity),
            (qdd, bounds.acceleration),
            (tau, bounds.effort),
        )
    )


def rows_of(name, joints, what, target, **choices):
    model = dn.load_robot(robot_file(name), joints=joints)
    begin = time.process_time()
    designed = dn.design_excitation(model, PERIOD, HARMONICS, **choices)
    elapsed = time.process_time() - begin
    yield harness.Row(
        f"{name} condition, {what}",
        condition(designed, designed.states(FINE)),
        "",
        "lower",
        f"best of {COUNT} random",
        best_of_random(designed),
        target=target,
        reason=f"{designed.base.count} base parameters",
    )
    for label, grid in (("10 x finer grid", FINE), ("5000 random times", BETWEEN)):
        used = largest_limit_share(designed, grid)
        yield harness.Row(f"{name} most of a limit, {label}", used, "", "lower", target=1.0)
    yield harness.Row(
        f"{name} search, CPU time", elapsed, "s", "lower", target=SECONDS, reason="with compiling"
    )


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
