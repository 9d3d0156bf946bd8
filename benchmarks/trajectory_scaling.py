"""Durations of scaled trajectories of four arms, and the time of toppra's constraint.

200 random smooth paths, 50 an arm, from rest to rest: the time-optimal motion against the fastest uniform one
within the same limits of velocity and effort, and, with limits of effort rates, the smooth motion against the
time-optimal one. The other rows are CPU times on one pinned core, both sides in one run, medians of many
paths: toppra's JointTorqueConstraint calls inverse dynamics, ours or Pinocchio's, three times for every point
of the grid.
"""

import os
import time
from functools import partial

import harness
import numpy as np
from robots import robot_file
from scipy.interpolate import CubicSpline

import dynamics_node as dn
from dynamics_node.algorithms import load_robot
from dynamics_node.trajectory import path_timing
from dynamics_node.trajectory.path_limits import PathLimits

ARMS = {
    "Panda": ("panda", [f"panda_joint{k}" for k in range(1, 8)]),
    "UR5": ("ur5", None),
    "xArm7": ("xarm7", None),
    "Kinova": ("kinova", None),
}
PATHS, SECONDS, KNOTS = 50, 1.0, 5  # an arm; duration before scaling
RATE_OF_LIMIT = 10.0  # 1/s: limit of an effort rate / limit of the effort
TIMED, REPEATS = 10, 15  # paths of the timings
FASTER = 1 / 20  # target of the constraint


def path(robot, random):
    """A smooth trajectory through the middle half of the ranges of the joints."""
    bounds = [
        (joint.limits.lower, joint.limits.upper) if joint.type.bounded else (-2.0, 2.0)
        for joint in robot.independent_joints
    ]
    lower, upper = np.clip(np.transpose(bounds), -2.0, 2.0)
    middle, half = 0.5 * (lower + upper), 0.25 * (upper - lower)
    knots = middle + half * random.uniform(-1, 1, (KNOTS, robot.nv))
    curve = CubicSpline(np.linspace(0, SECONDS, KNOTS), knots, bc_type="clamped")
    times = np.linspace(0, SECONDS, 1 + round(100 * SECONDS))
    return dn.JointTrajectory(robot.v_names, times, curve(times), curve(times, 1), curve(times, 2))


def uniform(robot, points):
    """Duration of the fastest uniform motion: no limit holds at a hundredth of its time."""
    slowed = dn.scale_trajectory(robot, points.slowed(0.01), method="uniform", friction=False, rate=1e4)
    return slowed.time[-1]


def durations(robot):
    """Ratios (paths, 2): time-optimal / uniform and smooth / time-optimal; and the paths."""
    random, ratios, paths = np.random.default_rng(0), [], []
    limits = {
        name: {"max_effort_rate": RATE_OF_LIMIT * effort}
        for name, effort in zip(robot.v_names, robot.effort_limits, strict=True)
    }
    drawn = 0
    while len(paths) < PATHS:
        points, drawn = path(robot, random), drawn + 1
        try:
            slow = uniform(robot, points)
        except ValueError:  # an effort exceeds its limit even at rest
            continue
        fast, smooth = (
            dn.scale_trajectory(robot, points, limits=own, friction=False) for own in ({}, limits)
        )
        assert fast.feasible and smooth.feasible
        ratios.append((fast.time[-1] / slow, smooth.time[-1] / fast.time[-1]))
        paths.append(points)
    return np.array(ratios), paths, drawn


def milliseconds(calls):
    """Least CPU times of REPEATS rounds of calls."""
    times = np.full((REPEATS, len(calls)), np.inf)
    for row in times:
        for k, call in enumerate(calls):
            begin = time.thread_time_ns()
            call()
            row[k] = (time.thread_time_ns() - begin) / 1e6
    return times.min(axis=0)


def constraints(robot, points, inverses):
    """The number of points, and ms of ours and of JointTorqueConstraint with every one of `inverses`: for the
    parameters of the constraint, and for the whole solution. Ours includes limits of velocity, and the points
    of the path, which toppra has as splines."""
    import toppra

    check = dn.check_trajectory(robot, points, friction=False)
    limits = PathLimits(check, {})
    spline = toppra.SplineInterpolator(limits.s, limits.q)
    effort, v = robot.effort_limits, robot.velocity_limits
    interpolation = toppra.constraint.DiscretizationType.Interpolation
    velocity = toppra.constraint.JointVelocityConstraint(np.stack([-v, v], axis=1))

    functions, zero = check.functions, np.zeros_like(check.qd)
    ours = path_timing._Fastest(limits, 0.0).constraint(limits.c)

    def our_parameters():
        functions.inverse(check.q, zero, check.qd, gravity=np.zeros(3))
        functions.inverse(check.q, check.qd, check.qdd, gravity=np.zeros(3))
        functions.inverse(check.q, zero, zero)
        ours.compute_constraint_params(None, None)

    def our_whole():
        assert path_timing._Fastest(PathLimits(check, {}), 0.0).speeds_from(0.0) is not None

    def whole(torque):
        solver = toppra.algorithm.TOPPRA([velocity, torque], spline, gridpoints=limits.s)
        assert solver.compute_parameterization(0, 0)[1] is not None

    calls = [our_parameters, our_whole]
    for inverse in inverses:
        bounds = np.stack([-effort, effort], axis=1)
        torque = toppra.constraint.JointTorqueConstraint(inverse, bounds, np.zeros(robot.nv), interpolation)
        calls += [partial(torque.compute_constraint_params, spline, limits.s), partial(whole, torque)]
    return [len(limits.s), *milliseconds(calls)]


def pinocchio_inverse(name, joints):
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(robot_file(name)))
    locked = [model.getJointId(own) for own in model.names[1:] if joints and own not in joints]
    model = pin.buildReducedModel(model, locked, pin.neutral(model))
    data = model.createData()
    return lambda q, qd, qdd: pin.rnea(model, data, q, qd, qdd).copy()


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    save = harness.arguments("trajectory_scaling").parse_args().save
    try:
        import toppra  # noqa: F401
    except ImportError as error:
        rows = [harness.Row("time-optimal", None, "", "lower", reason=str(error))]
        harness.finish("trajectory_scaling", rows, harness.versions("numpy", "toppra"), save)
        return
    rows, timings, everything = [], [], []
    for name, (file, joints) in ARMS.items():
        robot = load_robot(robot_file(file), joints=joints)
        ratios, paths, drawn = durations(robot)
        everything.append(ratios)
        rows += duration_rows(f"{name}, {PATHS} of {drawn} paths", ratios)
        if name == "Panda":
            inverse = dn.build(robot, "inverse_dynamics", backend="c")
            inverses = inverse, pinocchio_inverse(file, joints)
            for factor in (1.0, 10.0):
                timed = [constraints(robot, own.slowed(factor), inverses) for own in paths[:TIMED]]
                timings += timing_rows(*np.median(timed, axis=0))
    rows = [*duration_rows("200 paths", np.concatenate(everything)), *rows]
    rows += timings
    harness.finish("trajectory_scaling", rows, harness.versions("numpy", "scipy", "toppra", "pin"), save)


def timing_rows(points, ours, whole, *theirs):
    for label, own in (("our function", theirs[:2]), ("Pinocchio", theirs[2:])):
        peer, size = f"toppra, {label}", f"Panda, {points:g} points"
        yield harness.Row(f"{size}: torque constraint", ours, "ms", "lower", peer, own[0], target=FASTER)
        yield harness.Row(f"{size}: whole solution", whole, "ms", "lower", peer, own[1])


def duration_rows(label, ratios):
    names = "time-optimal / uniform", "effort rates limited / time-optimal"
    for name, own in zip(names, ratios.T, strict=True):
        low, middle, high = np.percentile(own, (5, 50, 95))
        reason = f"5 % below {low:.3f}, 95 % below {high:.3f}"
        yield harness.Row(f"{label}: {name}", middle, "", "lower", reason=reason)


if __name__ == "__main__":
    main()
