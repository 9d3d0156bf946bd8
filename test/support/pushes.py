"""Simulated batches of a robot under external wrenches, with noisy sensors, and an observer of them."""

from typing import NamedTuple

import numpy as np

import dynamics_node as dn
from dynamics_node.robot.state_arrays import moved


class Run(NamedTuple):
    """States, motor torques and external torques `pushed` (samples, runs, n) at `time` (samples,)."""

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    pushed: np.ndarray


def simulate(
    robot, q0, qd0, steps, wrench=None, link=None, step=1e-3, swing=0.0, stiffness=10.0, seed=0, begin=None
):
    """RK4 of our forward dynamics from q0 (runs, nq), qd0 (runs, nv); wrench (runs, 6) on a link in its axes.

    Motor torques compensate gravity at q0 and add a sine in every joint, of amplitude `swing` rad/s^2. A controller
    with a natural frequency of `stiffness` rad/s returns to q0. begin: time, q and qd to continue from.
    """
    forward = dn.build(robot, dn.forward_dynamics(robot), f_ext=True)
    runs, nv = qd0.shape
    random = np.random.default_rng(seed)
    speed, phase = random.uniform(3.0, 9.0, (2, runs, nv))
    hold = dn.build(robot, "nonlinear_effects", backend="numpy")(q0, 0.0 * qd0)
    f_ext = None if wrench is None else dn.external_wrenches(robot, {link: wrench})
    follow = follower(robot)
    inertia = np.diagonal(dn.build(robot, "mass_matrix", backend="numpy")(q0), axis1=1, axis2=2)
    scalar = [joint for joint in robot.independent_joints if joint.type.is_scalar]
    at, own = [j.q.start for j in scalar], [j.v.start for j in scalar]

    def torque(t, q, qd):
        driven = swing * (np.sin(speed * t + phase) - np.sin(phase)) - 2.0 * stiffness * qd
        driven[:, own] -= stiffness**2 * (q - q0)[:, at]
        driven = hold + inertia * driven
        if robot.floating_base:
            driven[:, :6] = 0.0
        return driven

    start, q, qd = (0.0, q0, qd0) if begin is None else begin
    rows = []
    for k in range(steps):
        t = start + k * step
        rows.append((q, qd, torque(t, q, qd)))
        slopes = []
        for part, before in ((0.0, None), (0.5, 0), (0.5, 1), (1.0, 2)):
            rate = qd if before is None else qd + part * step * slopes[before][1]
            place = q if before is None else follow(q, part * step * slopes[before][0])
            slopes.append((rate, forward(place, rate, torque(t + part * step, place, rate), f_ext)))
        mean = [sum(w * s[i] for w, s in zip((1, 2, 2, 1), slopes, strict=True)) / 6 for i in (0, 1)]
        q, qd = follow(q, step * mean[0]), qd + step * mean[1]
    q, qd, tau = (np.array(column) for column in zip(*rows, strict=True))
    pushed = np.zeros_like(qd) if wrench is None else torques_of(robot, q, link, wrench)
    return Run(start + step * np.arange(steps), q, qd, tau, pushed)


def follower(robot):
    """Function (q, displacement) -> closed q after a short motion of the independent joints."""
    tree = robot.tree
    every = range(tree.nv)
    if tree is robot:
        return lambda q, change: moved(tree, q, every, change)
    closing = dn.build_loop_solver(robot)
    at = [joint.q.start for joint in robot.independent_joints]

    def follow(q, change):
        rows = []
        for before, own in zip(q, change, strict=True):
            goal = before.copy()
            goal[at] += own
            rows.append(closing.following(goal, before)[0])
        return np.array(rows)

    return follow


def torques_of(robot, q, link, wrench):
    """J^T w (..., nv)."""
    J = dn.evaluate(robot, "frame_jacobian", q, link=link, reference="body", backend="numpy")
    return (np.swapaxes(J, -1, -2) @ wrench[..., None])[..., 0]


class Observed(NamedTuple):
    """Estimates of an observer after the last sample of all runs, and `judged` after every sample but the first."""

    torque: np.ndarray
    torque_covariance: np.ndarray
    judged: np.ndarray
    wrench: np.ndarray | None
    wrench_covariance: np.ndarray | None


def observe(observer, run: Run, velocity_std, torque_std, seed=1) -> Observed:
    """Run the observer's own Programs over all runs at once, with white noise on velocities and torques."""
    random = np.random.default_rng(seed)
    cycle, begin = (runner.kernel for runner in observer._runners)
    count, nv = run.qd.shape[1:]
    observer._set_levels(np.median(np.diff(run.time)))
    options = np.tile(observer._settings, (count, 1))
    more = (np.tile(observer._gravity, (count, 1)), np.tile(observer._velocity_variance, (count, 1)))
    state, judged = None, []
    steps = np.diff(run.time, prepend=0.0)
    for dt, q, qd, tau in zip(steps, run.q, run.qd, run.tau, strict=True):
        qd = qd + velocity_std * random.standard_normal((count, nv))
        tau = tau + torque_std * random.standard_normal((count, nv))
        sample = [np.ascontiguousarray(a) for a in (q, qd, tau, *more)]
        if state is None:
            (state,), good = begin(count, *sample)
            continue
        rest = (np.full((count, 1), dt), options, state)
        outputs, good = cycle(count, *sample, *rest)
        estimates = dict(zip(cycle.outputs, outputs, strict=True))
        state = estimates.pop("state")
        assert good
        judged.append(estimates.pop("statistics"))
    torque, wrench = ((estimates.get(f"{n}"), estimates.get(f"{n}_covariance")) for n in ("torque", "wrench"))
    return Observed(*torque, np.array(judged), *wrench)


def still(robot, q, wrench, link, time):
    """Runs of a robot at rest at q (runs, nq), whose motors balance the wrench (runs, 6)."""
    zero = np.zeros((len(q), robot.nv))
    pushed = torques_of(robot, q, link, wrench)
    tau = dn.build(robot, "nonlinear_effects", backend="numpy")(q, zero) - pushed
    return Run(time, *(np.broadcast_to(a, (len(time), *a.shape)) for a in (q, zero, tau, pushed)))


def alarms(ratios):
    """The number of times that ratios (samples, runs) rise above 1, with a reset below 0.5."""
    count = 0
    for row in ratios.T:
        on = False
        for value in row:
            count += value > 1.0 and not on
            on = value > (0.5 if on else 1.0)
    return count


def nees(errors, covariances):
    """Mean over runs of e^T C^-1 e per component: 1 for a consistent estimate."""
    solved = np.linalg.solve(covariances, errors[..., None])[..., 0]
    return (errors * solved).sum(axis=-1).mean() / errors.shape[-1]
