"""The search for the best motion within limits: sequential quadratic programming, from several starts.

Limits hold at all times if they hold between samples. A smooth maximum over the samples is above the largest
of them (see Problem.smooth_used); by how much, and how far the motion goes between them, is measured on the
fine grid after every solution, and the next one is allowed that much more or less.
"""

import contextlib
import time
from collections.abc import Callable

import numpy as np

from dynamics_node.identification.excitation.objective import Problem

SHARPNESS = 50.0  # of smooth maxima
REACHES = (1.0, 0.3, 0.1)  # of every coefficient in a solution
LOST = 1.1  # of limits, beyond which a solution has lost its way
FIRST = 0.3  # length of the first step
ROUNDS = 5  # in which what is between samples is measured
MARGIN = 2e-3  # of limits, for what changes from one round to the next
ITERATIONS = 300  # of one solution
PRECISE = 1e-6  # of the criterion
ENOUGH = 1e-3  # of the criterion: what a round must gain for another one


class Clock:
    """Time that is left. limit: s, or None."""

    def __init__(self, limit=None):
        if limit is not None and not limit >= 0:
            raise ValueError(f"the time limit must not be negative: {limit:g} s")
        self.limit = limit
        self.start()

    def start(self):
        """All of the time is left."""
        self._end = np.inf if self.limit is None else time.monotonic() + self.limit

    @property
    def out(self):
        return time.monotonic() > self._end


class _Stop(Exception):
    pass


def brought_inside(problem: Problem, x, clock: Clock):
    """Coefficients near x whose motion keeps within all limits, or those that come nearest to it on a way
    downhill: the smooth largest of all smooth maxima is minimised until no limit is exceeded. And how much of
    every limit (rows,) they use."""
    from scipy.optimize import minimize  # half a second that no other command should wait

    shape, best = x.shape, [x, problem.used(x, problem.fine)]

    def most(y):
        used, slopes = problem.smooth_used(y.reshape(shape), SHARPNESS)
        shares = np.exp(SHARPNESS * (used - used.max()))
        value = used.max() + np.log(shares.sum()) / SHARPNESS
        return value, np.tensordot(shares / shares.sum(), slopes, 1).ravel()

    def look(y):
        used = problem.used(y.reshape(shape), problem.fine)
        if used.max() < best[1].max():
            best[:] = y.reshape(shape), used
        if best[1].max() <= 1.0 or clock.out:
            raise _Stop

    with contextlib.suppress(_Stop):
        look(x)
        minimize(most, x.ravel(), jac=True, method="L-BFGS-B", callback=look)
    return tuple(best)


def improved(problem: Problem, x, criteria, clock: Clock, advance: Callable = lambda solutions: None):
    """Coefficients of the best motion on the way from x; both keep within all limits on the fine grid.
    criteria: functions of `criteria`, minimised one after the other. advance(solutions): called on the way,
    of len(criteria) + ROUNDS in all."""
    found, least, allowed = x, problem.criterion(x, criteria[-1])[0], np.zeros(len(problem.names))
    for of in criteria:
        x = _solved(problem, x, of, allowed, clock)
        advance(1)
    for left in range(ROUNDS, -1, -1):
        used, value = problem.used(x, problem.fine), problem.criterion(x, criteria[-1])[0]
        gained = least - value
        if used.max() <= 1.0 and gained > 0:
            found, least = x, value
        if not left or clock.out or (used.max() <= 1.0 and gained < ENOUGH):
            break
        beyond = np.maximum(used - 1.0, 0.0)
        allowed = problem.smooth_used(x, SHARPNESS)[0] - used - MARGIN - 0.5 * beyond
        x = _solved(problem, x, criteria[-1], allowed, clock)
        advance(1)
    advance(left)
    return found


def _solved(problem, x, of, allowed, clock):
    """x (nv, size) at which `of` is least where smooth maxima are at most 1 + allowed (rows,). A solution
    that loses its way is begun anew with shorter ones."""
    for reach in REACHES:
        found, success = _solved_near(problem, x, of, allowed, clock, reach)
        if problem.used(found).max() < LOST:
            x = found
            if success:
                break
    return x


def _solved_near(problem, x, of, allowed, clock, reach):
    """The same with every coefficient at most `reach` away, and whether it was found: the last one on the way
    there otherwise."""
    from scipy.optimize import minimize  # half a second that no other command should wait

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
        found = minimize(
            criterion, last[0], jac=True, method="SLSQP", callback=keep,
            bounds=np.stack([last[0] - reach, last[0] + reach], axis=1),
            constraints={"type": "ineq", "fun": left, "jac": left_slopes},
            options={"maxiter": ITERATIONS, "ftol": PRECISE / steep},
        )  # fmt: skip
    except _Stop:
        return last[0].reshape(shape), True
    return last[0].reshape(shape), found.success
