"""The external-torque observer: time of a cycle, consistency of its covariance, and delay of contact
detection.

The peer is a reimplementation of KDL's ChainExternalWrenchEstimator: M' by differences of mass matrices, p^
integrated with the filtered estimate, a gain, and a first-order filter. Gain 45 and filter constant 0.5 are
from its own test. It has no contact detection; the tests here have thresholds with one false alarm an hour in
the same motions.
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
RUNS, BEFORE, AFTER = 200, 300, 500  # runs; samples of STEP without and with the external wrench
FORCES = (2.0, 5.0, 10.0, 20.0, 40.0)  # N
START = 500  # samples of the initial transient
SCHEMES = ((45.0, 0.5), (100.0, 0.5), (200.0, 0.9))
ROUNDS, CALLS = 60, 500


# --- KDL's scheme -------------------------------------------------------------------------------------------


class Estimator:
    """KDL's estimator for many runs at once."""

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


class Detector(NamedTuple):
    """A contact detector; of(run, torques (samples, runs, n)) is above 1 for a contact."""

    name: str
    of: Callable[[Run, np.ndarray], np.ndarray]


FORCE, JOINTS, DISTANCE = "its force", "a threshold a joint", "distance of its torques"


def detectors(run, torques):
    """Detectors with one false alarm an hour on `torques` (samples, runs, n), estimated without contact.

    The statistics are the force that KDL's scheme returns, the largest normalized torque, and the Mahalanobis
    distance, the best statistic of one sample.
    """
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
        Detector(name, partial(_over, square, _level(square(run, torques)[START:])))
        for name, square in squares.items()
    )


PANDA = robot("panda")


def force_at_hand(q, torques):
    """(..., 3): the force of the wrench pinv(J^T) f, for a regular J."""
    J = dn.evaluate(PANDA, "frame_jacobian", q, link=LINK, reference="body", backend="numpy")
    wrench = np.linalg.solve(J @ np.swapaxes(J, -1, -2), J @ torques[..., None])
    return wrench[..., 3:, 0]


def _over(square, level, run, torques):
    return square(run, torques) / level


def _level(squares):
    """The level that squares (samples, runs) exceed once an hour, extrapolated from levels with countable
    rates.

    The logarithm of the rate is a linear function of the level.
    """
    levels = np.quantile(squares, 1.0 - np.geomspace(1e-3, 1e-5, 9))
    rates = [alarms(squares / level) * 3600.0 / (squares.size * STEP) for level in levels]
    slope, at_zero = np.polyfit(levels, np.log(rates), 1)
    return -at_zero / slope


# --- comparisons --------------------------------------------------------------------------------------------


def cycle():
    """Rows of one call against its compiled Program."""
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
    rest = (own._dt, own._settings, own._state, own._next, *own._results)
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


def consistency():
    """Rows of the NEES over RUNS runs of a moving arm under a wrench; its 95 % band is 1 +- target."""
    model, random = robot("panda"), np.random.default_rng(0)
    q, qd = REST + random.uniform(-0.3, 0.3, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    wrench = random.uniform(-1, 1, (RUNS, 6)) * np.array([0.5, 0.5, 0.5, 5.0, 5.0, 5.0])
    run = simulate(model, q, qd, 500, wrench, LINK, step=STEP, swing=0.4)
    own = observer(model, bandwidth=40.0, link=LINK)
    estimates = observe(own, run, VELOCITY_STD, TORQUE_STD)
    for name, errors, covariance in (
        ("torque", estimates.torque - run.pushed[-1], estimates.torque_covariance),
        ("wrench", estimates.wrench - wrench, estimates.wrench_covariance),
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
    """A row of the measured against the requested rate of false alarms, once in 5 s, which can be
    simulated."""
    model, random = robot("panda"), np.random.default_rng(1)
    q, qd = REST + random.uniform(-0.3, 0.3, (RUNS, 7)), random.uniform(-0.1, 0.1, (RUNS, 7))
    run = simulate(model, q, qd, 2000, step=STEP, swing=3.0)
    estimates = observe(observer(model, false_alarms=720.0), run, VELOCITY_STD, TORQUE_STD)
    count, requested = alarms(estimates.judged[..., :-1].max(axis=-1)), RUNS * 2000 * STEP / 5.0
    count, name = int(count), "false alarms, of the requested number"
    note = f"{count} in {RUNS * 2000 * STEP:g} s"
    yield harness.Row(name, count, "", "lower", "requested", requested, target=2.0, reason=note)


def delays():
    """Rows of the delay from the onset of a force to the alarm, at one false alarm an hour, on the same
    samples."""
    model, own = robot("panda"), observer(robot("panda"), false_alarms=1.0)
    free = with_noise(free_run(model), seed=6)
    detectors_of_scheme = {scheme: detectors(free, torques(model, scheme, free)) for scheme in SCHEMES}
    for force in FORCES:
        run = with_noise(pushed_run(model, force), seed=5)
        ours, early = delay(judged_by(own, run))
        theirs = {}
        for scheme, own_detectors in detectors_of_scheme.items():
            f = torques(model, scheme, run)
            theirs |= {(scheme, detector.name): delay(detector.of(run, f)) for detector in own_detectors}
        yield from _against(f"{force:g} N, delay", ours, early, theirs)


def _against(name, ours, early, theirs):
    """Rows against KDL's scheme with its own constants, with a target, and against its best detector and
    constants."""
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
    """BEFORE samples in free motion, then AFTER with a force at the hand in a random direction."""
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
    ratios = observe(own, run, 0.0, 0.0).judged[..., :-1].max(axis=-1)
    return np.concatenate([np.zeros((1, RUNS)), ratios])


def torques(model, scheme, run):
    """Torques by KDL's scheme (samples, runs, n)."""
    estimator = Estimator(model, *scheme)
    return np.array([estimator.step(*sample) for sample in zip(run.q, run.qd, run.tau, strict=True)])


def delay(ratios):
    """Mean delay of the first alarm, ms (AFTER samples if there is none), and the number of earlier
    alarms."""
    after, before = ratios[BEFORE:] > 1.0, ratios[BEFORE // 2 : BEFORE] > 1.0
    first = np.where(after.any(axis=0), after.argmax(axis=0), AFTER)
    return float(first.mean() * STEP * 1e3), int(before.any(axis=0).sum())


def rows():
    """Rows of all parts."""
    return [row for part in (cycle, consistency, false_alarms, delays) for row in part()]


def main():
    options = harness.arguments("observer").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    harness.finish("observer", rows(), harness.versions("numpy", "scipy"), options.save)


if __name__ == "__main__":
    main()
