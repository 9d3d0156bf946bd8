"""The time of check_trajectory for 100,000 points of a Panda, 10 ms apart.

The least CPU time of whole calls on one pinned core, from arrays to margins and efforts. Cubics have samples
at both ends of every segment, quintics one for every point.
"""

import os
import time
from dataclasses import replace

import harness
import numpy as np
from robots import PANDA, robot, robot_file

import dynamics_node as dn

POINTS, STEP = 100_000, 0.01  # s
CALLS = 15
TARGET = 0.1  # s
DRY = 'friction="1.0"'  # N m, of every joint


def motion(model):
    """A sine of every joint: times, q, qd, qdd."""
    random, time = np.random.default_rng(0), STEP * np.arange(POINTS)
    rate, phase = random.uniform(0.1, 0.6, model.nv), random.uniform(0, 6, model.nv)
    middle = np.array([0.5 * (joint.limits.lower + joint.limits.upper) for joint in model.independent_joints])
    angle = rate * time[:, None] + phase
    return time, middle + 0.4 * np.sin(angle), 0.4 * rate * np.cos(angle), -0.4 * rate**2 * np.sin(angle)


def seconds(model, points):
    def call():
        begin = time.thread_time()
        dn.check_trajectory(model, points, backend="c")
        return time.thread_time() - begin

    return min(call() for _ in range(CALLS))


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    save = harness.arguments("trajectory_check").parse_args().save
    model, rows = robot("panda"), []
    quintics = dn.JointTrajectory(model.v_names, *motion(model))
    cubics = replace(quintics, qdd=np.full_like(quintics.qdd, np.nan))
    dry = dn.parse_robot(robot_file("panda").read_text().replace('friction="0.0"', DRY), joints=PANDA)
    for name, own, points in (
        ("cubics", model, cubics),
        ("cubics, dry friction", dry, cubics),
        ("quintics", model, quintics),
    ):
        rows.append(harness.Row(f"panda, {name}", seconds(own, points), "s", "lower", target=TARGET))
    harness.finish("trajectory_check", rows, harness.versions("numpy"), save)


if __name__ == "__main__":
    main()
