"""The impulses of a step with contacts, limits and dry friction: projected Gauss-Seidel, a fixed number of
sweeps, for many states at once. This text defines the meaning; c/contact_solver.c is the same in vectors.

With A the Delassus matrix and v the velocities of the rows without impulses, w = v + A p. A touch has
p_n >= 0 and w_n >= target, one of them as an equation, and friction within its cone against w. At a
joint, dry friction is within its bounds and against w; limits push only where they would be passed. A touch
that is apart may come closer by its gap. One that penetrates is pushed out by a share of it in every step, as
is a joint beyond its limits.

Jean, The non-smooth contact dynamics method, 1999: Coulomb's law by projection.
"""

from typing import NamedTuple

import numpy as np

PUSHED = 0.2  # share of a penetration that a step removes
SLOW = 0.05  # m/s; slower impacts do not rebound
COMPLIANCE = 1e-9  # relative to the diagonal of A
STEEP = 1e-3  # largest number that tells how steep the ground is, see algorithms/ground.py


class Impulses(NamedTuple):
    """p (count, rows): impulses, N s and N m s; joints (count, 2, coordinates): the parts of dry friction
    and of limits; residual (count,): the largest change in the last sweep."""

    p: np.ndarray
    joints: np.ndarray
    residual: np.ndarray


def full(triangle, rows):
    """A (count, rows, rows) of its lower triangle (count, n)."""
    A = np.empty((len(triangle), rows, rows), dtype=triangle.dtype)
    i, j = np.tril_indices(rows)
    A[:, i, j] = A[:, j, i] = triangle
    return A


def targets(gap, approach, restitution):
    """Normal velocities (count, touches) that touches may have at the least. gap: over dt."""
    target = np.where(gap > 0.0, -gap, -PUSHED * gap)
    rebound = np.where((approach < -SLOW) & (gap + approach < 0.0), -restitution * approach, target)
    return np.maximum(target, rebound)


def solve_impulses(A, v, target, low, high, friction, dry, start: Impulses, sweeps: int) -> Impulses:
    """The Impulses of `sweeps` sweeps from those of the step before.

    A (count, rows, rows), v (count, rows), target (count, touches); low, high (count, coordinates); friction
    (touches,); dry (coordinates,): impulses."""
    p, joints = start.p.copy(), start.joints.copy()
    residual = np.zeros(len(v), dtype=v.dtype)
    touches, share = target.shape[1], _shares(A, target.shape[1])
    low, high = np.where(low > 0.0, PUSHED * low, low), np.where(high < 0.0, PUSHED * high, high)
    for _ in range(sweeps):
        residual[:] = 0.0
        for c in range(touches):
            _touch(A, v, p, share, 3 * c, target[:, c], friction[c], residual)
        for k in range(joints.shape[2]):
            i = 3 * touches + k
            _joint(A, v, p, joints[:, :, k], share, i, dry[k], low[:, k], high[:, k], residual)
    return Impulses(p, joints, residual)


def _shares(A, touches):
    """(count, rows): the impulse for a change of velocity of each row, the others being fixed; for both
    tangents of a touch in the direction that moves most easily."""
    rows = np.arange(A.shape[1])
    sizes = A[:, rows, rows].copy()
    x = 3 * np.arange(touches)
    a, b, c = A[:, x, x], A[:, x + 1, x + 1], A[:, x, x + 1]
    half = 0.5 * (a - b)
    sizes[:, x] = sizes[:, x + 1] = 0.5 * (a + b) + np.sqrt(half * half + c * c)
    return 1.0 / (1.0 + COMPLIANCE) / sizes


def _row(A, v, p, i):
    """w of a row."""
    return v[:, i] + np.einsum("kj,kj->k", A[:, i], p)


def _touch(A, v, p, share, i, target, mu, residual):
    x, y, z = i, i + 1, i + 2
    normal = np.maximum(0.0, p[:, z] - (_row(A, v, p, z) - target) * share[:, z])
    np.maximum(residual, np.abs(normal - p[:, z]), out=residual)
    p[:, z] = normal
    first, second = (p[:, k] - _row(A, v, p, k) * share[:, k] for k in (x, y))
    length, most = np.sqrt(first * first + second * second), mu * normal
    within = np.where(length > most, most / np.maximum(length, 1e-300), 1.0)
    first, second = within * first, within * second
    np.maximum(residual, np.maximum(np.abs(first - p[:, x]), np.abs(second - p[:, y])), out=residual)
    p[:, x], p[:, y] = first, second


def _joint(A, v, p, parts, share, i, most, low, high, residual):
    """parts (count, 2): dry friction and limits of one joint; their sum is p of the row."""
    now, before = _row(A, v, p, i), parts.copy()
    rubbed = np.clip(before[:, 0] - now * share[:, i], -most, most)
    free = before[:, 1] - (now + A[:, i, i] * (rubbed - before[:, 0])) * share[:, i]
    parts[:, 0] = rubbed
    parts[:, 1] = np.maximum(0.0, free + low * share[:, i]) + np.minimum(0.0, free + high * share[:, i])
    changes = parts - before
    np.maximum(residual, np.abs(changes).max(axis=1), out=residual)
    p[:, i] += changes.sum(axis=1)
