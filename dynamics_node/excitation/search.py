"""The search for the best motion within limits: sequential quadratic programming, from several starts.

Limits hold at all times if they hold between samples. A smooth maximum over the samples is above the largest
of them (see Problem.smooth_used); by how much, and how far the motion goes between them, is measured on the
fine grid after every solution, and the next one is allowed that much more or less.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from dynamics_node.excitation.problem import Problem

SHARPNESS = 50.0  # of smooth maxima
ROUNDS = 5  # in which what is between samples is measured
MARGIN = 2e-3  # of limits, for what changes from one round to the next
ITERATIONS = 300  # of one solution
PRECISE = 1e-6  # of the criterion
ENOUGH = 1e-3  # of the criterion: what a round must gain for another one


class Clock:
    """Time that is left. limit: s, or None."""

    def __init__(self, limit=None):
        self._end = np.inf if limit is None else time.monotonic() + limit

    @property
    def out(self):
        return time.monotonic() > self._end


class _OutOfTime(Exception):
    pass


def improved(problem: Problem, x, criteria, clock: Clock, advance: Callable = lambda solutions: None):
    """The best motion found from x that keeps within all limits on the fine grid, None if there is none;
    and how much of every limit (rows,) the last one uses. criteria: functions of `criteria`, minimised one
    after the other. advance(1): called after each of the solutions, of which there are len(criteria) +
    ROUNDS at most."""
    found, least, allowed = None, np.inf, np.zeros(len(problem.names))
    for of in criteria:
        x = _solved(problem, x, of, allowed, clock)
        advance(1)
    for done in range(ROUNDS + 1):
        used, value = problem.used(x, problem.fine), problem.criterion(x, criteria[-1])[0]
        if used.max() <= 1.0:
            gained, found, least = least - value, x if value < least else found, min(value, least)
            if gained < ENOUGH:
                break
        if done == ROUNDS or clock.out:
            break
        beyond = np.maximum(used - 1.0, 0.0)
        allowed = problem.smooth_used(x, SHARPNESS)[0] - used - MARGIN - 0.5 * beyond
        x = _solved(problem, x, criteria[-1], allowed, clock)
        advance(1)
    return found, used


def _solved(problem, x, of, allowed, clock):
    """x (nv, size) at which `of` is least where smooth maxima are at most 1 + allowed (rows,); the last one
    on the way there when time is out."""
    shape, last = x.shape, [x.ravel()]

    def criterion(y):
        if clock.out:
            raise _OutOfTime
        value, slope = problem.criterion(y.reshape(shape), of)
        return value, slope.ravel()

    def left(y):
        return 1.0 + allowed - problem.smooth_used(y.reshape(shape), SHARPNESS)[0]

    def left_slopes(y):
        return -problem.smooth_used(y.reshape(shape), SHARPNESS)[1].reshape(-1, y.size)

    def keep(y):
        last[0] = np.array(y)

    try:
        minimize(
            criterion, last[0], jac=True, method="SLSQP", callback=keep,
            constraints={"type": "ineq", "fun": left, "jac": left_slopes},
            options={"maxiter": ITERATIONS, "ftol": PRECISE},
        )  # fmt: skip
    except _OutOfTime:
        pass
    return last[0].reshape(shape)
