"""Search for the best motion within limits: sequential quadratic programming from several starts.

Limits at the samples do not bound the motion between them. A smooth maximum over the samples exceeds the
largest one (see smooth_used). After every solution, the excess and the overshoot between samples are
measured on the fine grid, and the limits of the next solution are corrected accordingly.
"""

import contextlib
import time
from collections.abc import Callable

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.identification.excitation.objective import ExcitationProblem

SHARPNESS = 50.0  # of smooth maxima
TRUST_REGIONS = (1.0, 0.3, 0.1)  # largest change of a coefficient in a solution
DIVERGED = 1.1  # of limits: above it, a solution has diverged
FIRST = 0.3  # length of the first step
ROUNDS = 5  # correction rounds for the motion between samples
MARGIN = 2e-3  # fraction of limits: allowance for changes between rounds
ITERATIONS = 300  # per solution
PRECISE = 1e-6  # tolerance of the criterion
LEAST_GAIN = 1e-3  # fraction of the criterion: least gain that starts another round


class Clock:
    """Remaining time. limit: s, or None."""

    def __init__(self, limit=None):
        if limit is not None and not limit >= 0:
            raise InputError(f"the time limit must not be negative: {limit:g} s")
        self.limit = limit
        self.start()

    def start(self):
        """Restart with the full time."""
        self._end = np.inf if self.limit is None else time.monotonic() + self.limit

    @property
    def out(self):
        return time.monotonic() > self._end


class _Stop(Exception):
    pass


def brought_inside(problem: ExcitationProblem, x, clock: Clock):
    """Coefficients near x whose motion keeps within all limits, or the closest ones, and their use (rows,) of
    every limit. The smooth maximum of all smooth maxima is minimized until no limit is exceeded."""
    from scipy.optimize import minimize  # takes 0.5 s to import

    shape, best = x.shape, [x, problem.used(x, problem.fine)]

    def most(y):
        used, slopes = problem.smooth_used(y.reshape(shape), SHARPNESS)
        shares = np.exp(SHARPNESS * (used - used.max()))
        value = used.max() + np.log(shares.sum()) / SHARPNESS
        return value, np.tensordot(shares / shares.sum(), slopes, 1).ravel()

    def check(y):
        used = problem.used(y.reshape(shape), problem.fine)
        if used.max() < best[1].max():
            best[:] = y.reshape(shape), used
        if best[1].max() <= 1.0 or clock.out:
            raise _Stop

    with contextlib.suppress(_Stop):
        check(x)
        minimize(most, x.ravel(), jac=True, method="L-BFGS-B", callback=check)
    return tuple(best)


def improved(
    problem: ExcitationProblem, x, criteria, clock: Clock, progress: Callable = lambda solutions: None
):
    """Coefficients of the best motion reached from x, which is within all limits on the fine grid, as is x.
    criteria: minimized one after the other. progress(solutions): progress callback, of len(criteria) + ROUNDS
    in total."""
    best, least_value, allowed = x, problem.criterion(x, criteria[-1])[0], np.zeros(len(problem.names))
    for of in criteria:
        x = _solved(problem, x, of, allowed, clock)
        progress(1)
    for left in range(ROUNDS, -1, -1):
        used, value = problem.used(x, problem.fine), problem.criterion(x, criteria[-1])[0]
        gained = least_value - value
        if used.max() <= 1.0 and gained > 0:
            best, least_value = x, value
        if not left or clock.out or (used.max() <= 1.0 and gained < LEAST_GAIN):
            break
        excess = np.maximum(used - 1.0, 0.0)
        allowed = problem.smooth_used(x, SHARPNESS)[0] - used - MARGIN - 0.5 * excess
        x = _solved(problem, x, criteria[-1], allowed, clock)
        progress(1)
    progress(left)
    return best


def _solved(problem, x, of, allowed, clock):
    """x (nv, size) that minimizes `of` subject to smooth maxima of at most 1 + allowed (rows,). A diverged
    solution is repeated with a smaller trust region."""
    for reach in TRUST_REGIONS:
        candidate, success = _solved_near(problem, x, of, allowed, clock, reach)
        if problem.used(candidate).max() < DIVERGED:
            x = candidate
            if success:
                break
    return x


def _solved_near(problem, x, of, allowed, clock, reach):
    """Solution with each coefficient changed by at most `reach`, and whether it converged; otherwise the last
    iterate."""
    from scipy.optimize import minimize  # takes 0.5 s to import

    shape, last = x.shape, [x.ravel()]
    steep = np.linalg.norm(problem.criterion(x, of)[1]) / FIRST

    def criterion(y):
        if clock.out:
            raise _Stop
        value, slope = problem.criterion(y.reshape(shape), of)
        return value / steep, slope.ravel() / steep

    def left(y):
        return 1.0 + allowed - problem.smooth_used(y.reshape(shape), SHARPNESS)[0]

    def left_slopes(y):
        return -problem.smooth_used(y.reshape(shape), SHARPNESS)[1].reshape(-1, y.size)

    def keep(y):
        last[0] = np.array(y)

    try:
        result = minimize(
            criterion, last[0], jac=True, method="SLSQP", callback=keep,
            bounds=np.stack([last[0] - reach, last[0] + reach], axis=1),
            constraints={"type": "ineq", "fun": left, "jac": left_slopes},
            options={"maxiter": ITERATIONS, "ftol": PRECISE / steep},
        )  # fmt: skip
    except _Stop:
        return last[0].reshape(shape), True
    return last[0].reshape(shape), result.success
