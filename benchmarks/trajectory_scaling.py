"""Durations of scaled trajectories of four arms, and the time of toppra's constraint.

200 random smooth paths, 50 an arm, from rest to rest: the time-optimal motion against the fastest uniform one
within the same limits of velocity and effort, and, with limits of effort rates, the smooth motion against the
time-optimal one.

200 more paths have via points where accelerations jump, stops, plans as controllers receive them, and times a
thousand times too short or too long: against the uniform motion, and against the optimum of a fine
discretization, a linear program.

The other rows are CPU times on one pinned core, both sides in one run, medians of many paths: toppra's
JointTorqueConstraint calls inverse dynamics, ours or Pinocchio's, three times for every point of the grid.
"""

import os
import time
from functools import partial
from itertools import pairwise

import harness
import numpy as np
from robots import robot_file
from scipy import sparse
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from scipy.optimize import linprog

import dynamics_node as dn
from dynamics_node.robot import load_robot
from dynamics_node.trajectory import time_optimal
from dynamics_node.trajectory.path_grid import Path

ARMS = {
    "Panda": ("panda", [f"panda_joint{k}" for k in range(1, 8)]),
    "UR5": ("ur5", None),
    "xArm7": ("xarm7", None),
    "Kinova": ("kinova", None),
}
PATHS, SECONDS, KNOTS = 50, 1.0, 5  # an arm; duration before scaling
RATE_OF_LIMIT = 10.0  # 1/s: limit of an effort rate / limit of the effort
TIMED, REPEATS = 10, 15  # paths of the timings
COUNTS = 100, 1000  # least intervals of their grids
FASTER = 1 / 20  # target of the constraint
FINE, PROGRAMS = 300, 3  # intervals between two stops; linear programs
NEAR = 1.02  # target: time-optimal / optimum
VIA, SPLINES = (
    ("via points", "a stop"),
    ("a plan at 20 ms", "a plan at 10 ms", "a plan at 4 ms", "absurd times"),
)


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


# --- against the optimum ------------------------------------------------------------------------------------


def special(robot, random, kind):
    """A JointTrajectory, the polynomials of its path, and their breaks."""
    smooth = path(robot, random)
    if kind in VIA:
        count = random.integers(3, 6) if kind == "via points" else 3
        time = np.cumsum(random.uniform(0.3, 0.7, count))
        q, rates = smooth.q[:: len(smooth) // count][:count], np.zeros((count, robot.nv))
        if kind == "via points":
            rates[1:-1] = np.gradient(q, time, axis=0)[1:-1]
        given = dn.JointTrajectory(robot.v_names, time, q, rates, np.full_like(q, np.nan))
        pieces = [
            CubicHermiteSpline(time[k : k + 2], q[k : k + 2], rates[k : k + 2]) for k in range(count - 1)
        ]
        return given, pieces, time
    step = {"a plan at 20 ms": 0.02, "a plan at 10 ms": 0.01, "a plan at 4 ms": 0.004}.get(kind, 0.01)
    curve = CubicSpline(smooth.time[::25], smooth.q[::25], bc_type="clamped")
    time = np.linspace(0, SECONDS, 1 + round(SECONDS / step))
    given = dn.JointTrajectory(
        robot.v_names, time, curve(time), curve(time, 1), np.full((len(time), robot.nv), np.nan)
    )
    if kind == "absurd times":
        given = given.slowed(random.choice([1e-3, 1e3]))
    return given, [curve], time[[0, -1]]


def optimum(robot, pieces, breaks):
    """Duration of the fastest motion on a fine grid. Unknowns: x = s'^2 of points; s'' is constant between.
    Efforts at both ends of every interval, with its own polynomial, and velocities are within limits."""
    inverse, limit = dn.build(robot, "inverse_dynamics"), robot.effort_limits
    angle = np.linspace(0, np.pi, FINE + 1)
    grids = [a + (b - a) * 0.5 * (1 - np.cos(angle)) for a, b in pairwise(breaks)]
    rows, bounds, number, s = [], [], 0, np.unique(np.concatenate(grids))
    most = np.full(len(s), np.inf)
    for grid, piece in zip(grids, pieces, strict=True):
        step = 2 * np.diff(grid)[:, None]
        at = number + np.arange(FINE)
        for side in (0, 1):
            here = grid[side : FINE + side]
            q, qs, qss = (piece(here, order) for order in range(3))
            zero, still = np.zeros_like(q), inverse(q, np.zeros_like(q), np.zeros_like(q))
            a, b = inverse(q, zero, qs) - still, inverse(q, qs, qss) - still
            own = np.stack([-a / step + (b if side == 0 else 0), a / step + (b if side == 1 else 0)])
            for sign in (1, -1):
                data = (sign * own / limit).reshape(2, -1)
                columns = np.repeat(at, robot.nv)
                matrix = (
                    data.ravel(),
                    (np.tile(np.arange(data.shape[1]), 2), np.append(columns, columns + 1)),
                )
                rows.append(sparse.csr_matrix(matrix, (data.shape[1], len(s))))
                bounds.append((1 - sign * still / limit).ravel())
            with np.errstate(divide="ignore"):
                fastest = (robot.velocity_limits / np.abs(qs)).min(axis=1) ** 2
            most[at + side] = np.minimum(most[at + side], fastest)
        number += FINE
    ds, x, best = np.diff(s), np.ones(len(s)), np.inf
    weights = 0.5 * (np.append(ds, 0) + np.append(0, ds))
    for _ in range(PROGRAMS):  # of 1 / sqrt(x), linear at the previous x
        found = linprog(
            -weights * x**-1.5,
            sparse.vstack(rows),
            np.concatenate(bounds),
            bounds=np.stack([np.zeros_like(most), most], axis=1),
        )
        if found.x is None:
            return np.nan
        best = min(best, (2 * ds / (np.sqrt(found.x[1:]) + np.sqrt(found.x[:-1]))).sum())
        x = np.maximum(found.x, 1e-6 * found.x.max())
    return best


def compared(robot, kind, count, seed):
    """Ratios (count, 2): time-optimal / optimum, and time-optimal / fastest uniform motion."""
    random, ratios = np.random.default_rng(seed), []
    while len(ratios) < count:
        given, pieces, breaks = special(robot, random, kind)
        try:
            slow = dn.scale_trajectory(robot, given, method="uniform", friction=False)
        except ValueError:  # an effort exceeds its limit even at rest
            continue
        fast = dn.scale_trajectory(robot, given, friction=False)
        assert fast.feasible
        duration = fast.time[-1] - fast.time[0]
        ratios.append((duration / optimum(robot, pieces, breaks), duration / (slow.time[-1] - slow.time[0])))
    return np.array(ratios)


def special_rows(robots):
    every = []
    for number, kind in enumerate((*VIA, *SPLINES)):
        count = 10 if kind in SPLINES[:2] else 8 if kind != "via points" else 6
        own = np.concatenate([compared(robot, kind, count, number) for robot in robots])
        every.append(own)
        yield from near_rows(f"{len(own)} paths, {kind}", own)
    yield from near_rows("all of them", np.concatenate(every))


def near_rows(label, ratios):
    for name, own, target in zip(("optimum", "uniform, largest"), ratios.T, (NEAR, 1.0), strict=True):
        reason = f"median {np.median(own):.3f}, smallest {own.min():.3f}"
        yield harness.Row(
            f"{label}: time-optimal / {name}", own.max(), "", "lower", reason=reason, target=target
        )


# --- times --------------------------------------------------------------------------------------------------


def milliseconds(calls):
    """Least CPU times of REPEATS rounds of calls."""
    times = np.full((REPEATS, len(calls)), np.inf)
    for row in times:
        for k, call in enumerate(calls):
            begin = time.thread_time_ns()
            call()
            row[k] = (time.thread_time_ns() - begin) / 1e6
    return times.min(axis=0)


def constraints(robot, points, inverses, count):
    """The number of points, and ms of ours and of JointTorqueConstraint with every one of `inverses`: for the
    parameters of the constraint, and for the whole solution. Ours includes limits of velocity, and both sides
    of every point."""
    import toppra

    check = dn.check_trajectory(robot, points, friction=False)
    path = Path(points)
    grids = [path.first(part, count) for part in path.parts]
    problem, s = time_optimal._Problem(check, {}, grids), np.concatenate([grid.s for grid in grids])
    spline = toppra.SplineInterpolator(points.time, points.q)
    effort, v = robot.effort_limits, robot.velocity_limits
    interpolation = toppra.constraint.DiscretizationType.Interpolation
    velocity = toppra.constraint.JointVelocityConstraint(np.stack([-v, v], axis=1))

    def our_parameters():
        time_optimal._Problem(check, {}, grids)

    def our_whole():
        our_parameters()
        problem.solved(None)

    def whole(torque):
        solver = toppra.algorithm.TOPPRA([velocity, torque], spline, gridpoints=s)
        assert solver.compute_parameterization(0, 0)[1] is not None

    calls = [our_parameters, our_whole]
    for inverse in inverses:
        bounds = np.stack([-effort, effort], axis=1)
        torque = toppra.constraint.JointTorqueConstraint(inverse, bounds, np.zeros(robot.nv), interpolation)
        calls += [partial(torque.compute_constraint_params, spline, s), partial(whole, torque)]
    return [len(s), *milliseconds(calls)]


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
    rows, timings, everything, robots = [], [], [], []
    for name, (file, joints) in ARMS.items():
        robot = load_robot(robot_file(file), joints=joints)
        robots.append(robot)
        ratios, paths, drawn = durations(robot)
        everything.append(ratios)
        rows += duration_rows(f"{name}, {PATHS} of {drawn} paths", ratios)
        if name == "Panda":
            inverse = dn.build(robot, "inverse_dynamics", backend="c")
            inverses = inverse, pinocchio_inverse(file, joints)
            for count in COUNTS:
                timed = [constraints(robot, own, inverses, count) for own in paths[:TIMED]]
                timings += timing_rows(*np.median(timed, axis=0))
    rows = [*duration_rows("200 paths", np.concatenate(everything)), *rows]
    rows += special_rows(robots)
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
