"""Random motions within limits: where the search begins, and what its result is held against."""

import numpy as np

from dynamics_node.identification.excitation.problem import Problem

SHRINKS = 8  # at most
SMALLER = 0.8
TOUCHING = 0.999  # of a limit: not over it by rounding


def random_motion(problem: Problem, random: np.random.Generator):
    """Coefficients (nv, size): every joint reaches one of its own limits; where torques or boxes are exceeded
    then, all move less, until they are not or after SHRINKS times."""
    x = _within_joint_limits(problem, random)
    for _ in range(SHRINKS):
        if problem.used(x, problem.fine).max() <= 1.0:
            break
        x = np.where(_moving(problem), SMALLER * x, x)
    return x


def _moving(problem):
    """Which coefficients are of curves that move."""
    moving = np.ones(problem.shape[1], dtype=bool)
    moving[0] = problem.series.start is not None
    return moving


def _within_joint_limits(problem, random):
    x = np.where(_moving(problem), random.normal(size=problem.shape), 0.0)
    q, qd, qdd = problem.fine.states(x)
    bounds, fixed = problem.bounds, problem.series.start is not None
    low, high = q.min(axis=0), q.max(axis=0)
    used = [np.abs(qd).max(axis=0) / bounds.velocity, np.abs(qdd).max(axis=0) / bounds.acceleration]
    if fixed:
        start = problem.series.start
        room = bounds.half - np.abs(start - bounds.centre)
        used.append(np.maximum(high - start, start - low) / room)
    else:
        used.append((high - low) / (2 * bounds.half))
    x = TOUCHING * x / np.max(used, axis=0)[:, None]
    if not fixed:
        q = problem.fine.states(x)[0]
        low, high = q.min(axis=0), q.max(axis=0)
        down, up = bounds.centre - bounds.half - low, bounds.centre + bounds.half - high
        x[:, 0] = (down + random.uniform(size=len(down)) * (up - down)) / problem.curves.scale[:, 0]
    return x
