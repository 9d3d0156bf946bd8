"""The external-torque observer: time of a cycle, honesty of its covariance, and how soon it sees a contact.

The peer is the scheme of KDL's ChainExternalWrenchEstimator, reimplemented as its header and source describe
it: M' by differences of mass matrices, p^ integrated with what its first-order filter says, a gain, then that
filter; gain 45 and filter constant 0.5 are those of its own test. It has no test for contacts; those given to
it here have levels that it meets once an hour in the same motions when nobody pushes.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import harness
import numpy as np
from robots import robot
from scipy.stats import chi2

sys.path.insert(0, str(harness.HERE.parent / "test" / "support"))

from pushes import Run, alarms, nees, observe, simulate

import dynamics_node as dn
from dynamics_node.algorithms import quantity_program

LINK = "panda_hand"
REST = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])
STEP = 1e-3
VELOCITY_STD, TORQUE_STD = 0.01, 0.3
RUNS, BEFORE, AFTER = 200, 300, 500  # and samples of STEP, without the push and with it
FORCES = (2.0, 5.0, 10.0, 20.0, 40.0)  # N
START = 500  # samples after which what the begin has left is gone
SCHEMES = ((45.0, 0.5), (100.0, 0.5), (200.0, 0.9))
ROUNDS, CALLS = 60, 500


# --- KDL's scheme -------------------------------------------------------------------------------------------


class Estimator:
    """Of many runs at once: torques (runs, n) after each sample."""

    def __init__(self, model, gain, constant):
        self._model, self._gain, self._constant = model, gain, constant
        self._M = dn.build(model, "mass_matrix")
        self._bias = dn.build(model, "nonlinear_effects")
        self._before: np.ndarray | None = None

    def step(self, q, qd, tau):
        M, gravity = self._M(q), self._bias(q, 0.0 * qd)
        coriolis = self._bias(q, qd) - gravity
        p = np.einsum("kij,kj->ki", M, qd)
        if self._before is None:
            self._before, self._first = M, p
            self._integral = np.zeros_like(p)
            self._filtered = np.zeros_like(p)
            return self._filtered
        change = np.einsum("kij,kj->ki", (M - self._before) / STEP, qd)
        self._before = M
        self._integral = self._integral + (tau - gravity - coriolis + change + self._filtered) * STEP
        raw = self._gain * (p - self._integral - self._first)
        self._filtered = self._constant * self._filtered + (1.0 - self._constant) * raw
        return self._filtered


class Test(NamedTuple):
    """Of a run and torques (samples, runs, n): what is above 1 for a contact."""

    name: str
    of: Callable[[Run, np.ndarray], np.ndarray]


FORCE, JOINTS, DISTANCE = "its force", "a threshold a joint", "distance of its torques"


def tests(run, torques):
    """Of torques (samples, runs, n) that nobody caused, tests that such torques meet once an hour: the size
    of the force that KDL's scheme returns, a threshold for each joint on its torques, and the best that can
    be done with them at one moment, their Mahalanobis distance."""
    flat = torques[START:].reshape(-1, torques.shape[-1])
    variance, weight = flat.var(axis=0), np.linalg.inv(np.cov(flat.T))
    squares = {
        FORCE: lambda run, f: np.array(
            [(force_at_hand(*sample) ** 2).sum(axis=-1) for sample in zip(run.q, f, strict=True)]
        ),
        JOINTS: lambda run, f: (f * f / variance).max(axis=-1),
        DISTANCE: lambda run, f: np.einsum("...i,ij,...j->...", f, weight, f),
    }
    return tuple(
        Test(name, partial(_over, square, _level(square(run, torques)[START:])))
        for name, square in squares.items()
    )


PANDA = robot("panda")


def force_at_hand(q, torques):
    """Of the wrench pinv(J^T) f, J regular as it is here: (..., 3)."""
    J = dn.evaluate(PANDA, "frame_jacobian", q, link=LINK, reference="body", backend="numpy")
    wrench = np.linalg.solve(J @ np.swapaxes(J, -1, -2), J @ torques[..., None])
    return wrench[..., 3:, 0]


def _over(square, level, run, torques):
    return square(run, torques) / level


def _level(squares):
    """What squares (samples, runs) rise above once an hour: from levels that they rise above often enough to
    be counted, on a line, for the logarithm of the rate falls with the square."""
    tried = np.quantile(squares, 1.0 - np.geomspace(1e-3, 1e-5, 9))
    rates = [alarms(squares / level) * 3600.0 / (squares.size * STEP) for level in tried]
    slope, at_zero = np.polyfit(tried, np.log(rates), 1)
    return -at_zero / slope


# --- what is compared ---------------------------------------------------------------------------------------


def cycle():
    """One call, beside the compiled Program under it."""
    model = robot("panda")
    own = dn.build_observer(
        model, dn.ObserverOptions(velocity_std=VELOCITY_STD, torque_std=TORQUE_STD, link=LINK), backend="c"
    )
    q, qd = REST.copy(), np.zeros(7)
    tau, times = (
        dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy"),
        iter(np.arange(10.0, 10_000.0, STEP).tolist()),
    )
    own.step(0.0, q, qd, tau), own.step(STEP, q, qd, tau)
    rest = (own._dt, own._told, own._kept, own._next, *own._results)
    kernel, g, variance = own._runners[0].call_one, own._gravity, own._velocity_variance
    own.reset()

    def alone():
        for _ in range(CALLS):
            kernel(q, qd, tau, g, variance, *rest)

    def call():
        for _ in range(CALLS):
            own.step(next(times), q, qd, tau)

    ours, theirs = (min(elapsed(f) for _ in range(ROUNDS)) / CALLS * 1e-3 for f in (call, alone))
    note = f"{len(own._runners[0].program.ops)} operations: torque, wrench, covariances, contact"
    yield harness.Row("panda, a cycle", ours, "us", "lower", target=3.0, reason=note)
    yield harness.Row("panda, a cycle", ours, "us", "lower", "builtin", theirs)
    counts = [
        len(quantity_program(model, name).ops) for name in ("generalized_momentum", "nonlinear_effects")
    ]
    yield harness.Row("panda, p and its rate", counts[0], "ops", "lower", "bias alone", counts[1])


def elapsed(call):
    begin = time.thread_time_ns()
    call()
    return time.thread_time_ns() - begin


def honest():
    """NEES over RUNS runs of an arm in motion that is pushed; its 95 % band is 1 -+ target."""
    model, random = robot("panda"), np.random.default_rng(0)
    q, qd = REST + random.uniform(-0.3, 0.3, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    wrench = random.uniform(-1, 1, (RUNS, 6)) * np.array([0.5, 0.5, 0.5, 5.0, 5.0, 5.0])
    run = simulate(model, q, qd, 500, wrench, LINK, step=STEP, swing=0.4)
    own = observer(model, bandwidth=40.0, link=LINK)
    found = observe(own, run, VELOCITY_STD, TORQUE_STD)
    for name, errors, covariance in (
        ("torque", found.torque - run.pushed[-1], found.torque_covariance),
        ("wrench", found.wrench - wrench, found.wrench_covariance),
    ):
        value, count = nees(errors, covariance), errors.size
        half = np.diff(chi2.ppf([0.025, 0.975], count))[0] / count / 2
        note = f"mean of e^T C^-1 e over {errors.shape[1]}: {value:.4f}, {RUNS} runs"
        yield harness.Row(
            f"NEES of {name}, off 1", float(abs(value - 1)), "", "lower", target=float(half), reason=note
        )


def observer(model, **options):
    options = dn.ObserverOptions(velocity_std=VELOCITY_STD, torque_std=TORQUE_STD, **options)
    return dn.build_observer(model, options)


def false_alarms():
    """Measured beside asked for, at a rate that can be simulated: once in 5 s."""
    model, random = robot("panda"), np.random.default_rng(1)
    q, qd = REST + random.uniform(-0.3, 0.3, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    run = simulate(model, q, qd, 2000, step=STEP, swing=3.0)
    found = observe(observer(model, false_alarms=720.0), run, VELOCITY_STD, TORQUE_STD)
    count, asked = alarms(found.judged[..., :-1].max(axis=-1)), RUNS * 2000 * STEP / 5.0
    count, name = int(count), "false alarms, of those asked for"
    note = f"{count} in {RUNS * 2000 * STEP:g} s"
    yield harness.Row(name, count, "", "lower", "asked", asked, target=2.0, reason=note)


def delays():
    """From the begin of a push to the alarm, at one false alarm an hour, on the same samples."""
    model, own = robot("panda"), observer(robot("panda"), false_alarms=1.0)
    free = with_noise(free_run(model), seed=6)
    found = {scheme: tests(free, torques(model, scheme, free)) for scheme in SCHEMES}
    for force in FORCES:
        run = with_noise(pushed_run(model, force), seed=5)
        ours, early = delay(judged_by(own, run))
        theirs = {}
        for scheme, those in found.items():
            f = torques(model, scheme, run)
            theirs |= {(scheme, test.name): delay(test.of(run, f)) for test in those}
        yield from _against(f"{force:g} N, delay", ours, early, theirs)


def _against(name, ours, early, theirs):
    """Judged beside what KDL's scheme returns, with its own constants; then beside the best of all tests and
    constants that were tried."""
    for which, target in ((FORCE, 0.5), (JOINTS, None)):
        value, false = theirs[SCHEMES[0], which]
        note = f"mean over {RUNS} pushes; alarms before: {early} and {false}"
        yield harness.Row(name, ours, "ms", "lower", f"KDL: {which}", value, target=target, reason=note)
    best = min(theirs, key=lambda scheme: theirs[scheme][0])
    note = f"gain {best[0][0]:g}, constant {best[0][1]:g}: {best[1]}"
    yield harness.Row(name, ours, "ms", "lower", "the best of it", theirs[best][0], reason=note)


def free_run(model):
    random = np.random.default_rng(3)
    q, qd = REST + random.uniform(-0.2, 0.2, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    return simulate(model, q, qd, 2000, step=STEP, swing=1.0)


def pushed_run(model, force):
    """BEFORE samples in motion, then AFTER with a force at the hand in any direction."""
    random = np.random.default_rng(int(force))
    q, qd = REST + random.uniform(-0.2, 0.2, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    free = simulate(model, q, qd, BEFORE + 1, step=STEP, swing=1.0)
    direction = random.standard_normal((RUNS, 3))
    wrench = np.zeros((RUNS, 6))
    wrench[:, 3:] = force * direction / np.linalg.norm(direction, axis=1)[:, None]
    after = simulate(
        model, q, qd, AFTER, wrench, LINK, STEP, swing=1.0, begin=(BEFORE * STEP, free.q[-1], free.qd[-1])
    )
    joined = [np.concatenate([a[:-1], b]) for a, b in zip(free[1:], after[1:], strict=True)]
    return Run(STEP * np.arange(BEFORE + AFTER), *joined)


def with_noise(run, seed):
    random = np.random.default_rng(seed)
    qd = run.qd + VELOCITY_STD * random.standard_normal(run.qd.shape)
    return run._replace(qd=qd, tau=run.tau + TORQUE_STD * random.standard_normal(run.tau.shape))


def judged_by(own, run):
    """(samples, runs), above 1 for an alarm."""
    found = observe(own, run, 0.0, 0.0).judged[..., :-1].max(axis=-1)
    return np.concatenate([np.zeros((1, RUNS)), found])


def torques(model, scheme, run):
    """Those of KDL's scheme (samples, runs, n)."""
    estimator = Estimator(model, *scheme)
    return np.array([estimator.step(*sample) for sample in zip(run.q, run.qd, run.tau, strict=True)])


def delay(ratios):
    """Mean delay of the first alarm, ms (AFTER samples where there is none), and alarms before the push."""
    after, before = ratios[BEFORE:] > 1.0, ratios[BEFORE // 2 : BEFORE] > 1.0
    first = np.where(after.any(axis=0), after.argmax(axis=0), AFTER)
    return float(first.mean() * STEP * 1e3), int(before.any(axis=0).sum())


def rows():
    """Of all parts, as `./dev bench sensor_problems` takes them."""
    return [found for part in (cycle, honest, false_alarms, delays) for found in part()]


def main():
    options = harness.arguments("observer").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    harness.finish("observer", rows(), harness.versions("numpy", "scipy"), options.save)


if __name__ == "__main__":
    main()
