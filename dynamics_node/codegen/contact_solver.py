"""The impulses of a step with contacts, limits and dry friction: block Gauss-Seidel, a fixed number of
sweeps, for many states at once. This text defines the meaning; c/contact_solver.c is the same in vectors.

With A the Delassus matrix and v the velocities of the rows without impulses, w = v + A p. A touch has
p_n >= 0 and w_n >= target, one of them as an equation, and friction within its cone against w. This is
Coulomb's law itself, not its convex relaxation, and without compliance. At a joint, dry friction is within
its bounds and against w; limits push only where they would be passed. A touch that is apart may come closer
by its gap. One that penetrates is pushed out by a share of it in every step, but slowly, as it keeps the
velocity; so is a joint beyond its limits.

The first sweep begins with the impulses of the step before, scaled so that they add no energy. A sweep finds
each touch anew, the others being fixed. If the impulse that stops it is within the cone, it sticks. Else a
step of projected Gauss-Seidel gives the direction in which it slides, and its normal velocity the size of the
impulse along that direction. Directions that nothing moves have no impulse.

Jean, The non-smooth contact dynamics method, 1999: Coulomb's law, touch by touch.
"""

from typing import NamedTuple

import numpy as np

PUSHED = 0.2  # share of a penetration that a step removes
PUSH = 0.2  # m/s or rad/s; the fastest that it does so: a body that leaves with it rises by 2 mm
SLOW = 0.05  # m/s; slower impacts do not rebound
STEEP = 1e-3  # largest number that tells how steep the ground is, see algorithms/ground.py
WEDGED = 0.1  # of the normal entry of A; where friction lifts a touch by more, its normal impulse comes first


class Smallest(NamedTuple):
    """pivot: of a touch, relative to its entry of the diagonal. entry: of the diagonal, relative to the trace
    of the touch; less is a direction that nothing moves."""

    pivot: float
    entry: float


SMALLEST = {np.dtype(np.float64): Smallest(1e-9, 1e-20), np.dtype(np.float32): Smallest(1e-4, 1e-10)}


class Touches(NamedTuple):
    """Of every touch (count, touches): L D L^T of its block of A, in the order z, x, y, by the inverse pivots
    and the factors; share: the inverse of the largest eigenvalue of its two tangents."""

    z: np.ndarray
    x: np.ndarray
    y: np.ndarray
    xz: np.ndarray
    yz: np.ndarray
    yx: np.ndarray
    share: np.ndarray

    def stopping(self, c, w):
        """The impulses (3, count) that stop touch c, which moves with w (3, count)."""
        x = w[0] - self.xz[:, c] * w[2]
        y = w[1] - self.yz[:, c] * w[2] - self.yx[:, c] * x
        y = -y * self.y[:, c]
        x = -x * self.x[:, c] - self.yx[:, c] * y
        return x, y, -w[2] * self.z[:, c] - self.xz[:, c] * x - self.yz[:, c] * y


class Impulses(NamedTuple):
    """p (count, rows): impulses, N s and N m s; joints (count, 2, joints): the parts of dry friction
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
    target = np.where(gap > 0.0, -gap, _pushed(-gap))
    rebound = np.where((approach < -SLOW) & (gap + approach < 0.0), -restitution * approach, target)
    return np.maximum(target, rebound)


def limit_velocities(low, high):
    """The least and largest velocities (count, joints). low, high: distances from the limits over dt."""
    return np.where(low > 0.0, _pushed(low), low), np.where(high < 0.0, -_pushed(-high), high)


def _pushed(depth):
    """The velocity that removes a penetration. depth: over dt."""
    return np.minimum(PUSHED * depth, PUSH)


def solve_impulses(A, v, target, low, high, friction, dry, start: Impulses, sweeps: int) -> Impulses:
    """The Impulses of `sweeps` sweeps from those of the step before.

    A (count, rows, rows), v (count, rows), target (count, touches); low, high (count, joints): see
    `limit_velocities`; friction (touches,); dry (joints,): impulses."""
    kept = _kept_share(A, v, target, start.p)
    p, joints = kept[:, None] * start.p, kept[:, None, None] * start.joints
    residual = np.zeros(len(v), dtype=v.dtype)
    count, every = target.shape[1], _touches(A, target.shape[1])
    share = 1.0 / np.einsum("kii->ki", A)
    for _ in range(sweeps):
        residual[:] = 0.0
        for c in range(count):
            _touch(A, v, p, every, c, target[:, c], friction[c], residual)
        for k in range(joints.shape[2]):
            i = 3 * count + k
            _joint(A, v, p, joints[:, :, k], share, i, dry[k], low[:, k], high[:, k], residual)
    return Impulses(p, joints, residual)


def _kept_share(A, v, target, p):
    """(count,): the share, 0 to 1, of the impulses p of the step before that leaves the least energy. All of
    them, the step after an impact, would add more energy than few sweeps take away."""
    ahead = v.copy()
    ahead[:, 2 : 3 * target.shape[1] : 3] -= target
    work, square = np.einsum("ki,ki->k", p, ahead), np.einsum("ki,kij,kj->k", p, A, p)
    return np.clip(-work / np.maximum(square, np.finfo(A.dtype).tiny), 0.0, 1.0)


def _touches(A, touches) -> Touches:
    i = 3 * np.arange(touches)
    a, b, c = A[:, i, i], A[:, i + 1, i + 1], A[:, i + 2, i + 2]
    ab, ac, bc = A[:, i, i + 1], A[:, i, i + 2], A[:, i + 1, i + 2]
    smallest = SMALLEST[A.dtype]
    least = smallest.entry * (a + b + c)

    def inverse(pivot, entry):
        return np.where(entry > least, 1.0 / np.maximum(pivot, smallest.pivot * entry), 0.0)

    z = inverse(c, c)
    xz, yz = ac * z, bc * z
    x = inverse(a - xz * ac, a)
    rest = ab - xz * bc
    yx = rest * x
    half = 0.5 * (a - b)
    largest = 0.5 * (a + b) + np.sqrt(half * half + ab * ab)
    return Touches(z, x, inverse(b - yz * bc - yx * rest, b), xz, yz, yx, inverse(largest, largest))


def _row(A, v, p, i):
    """w of a row."""
    return v[:, i] + np.einsum("kj,kj->k", A[:, i], p)


def _touch(A, v, p, every, c, target, mu, residual):
    x, y, z = 3 * c, 3 * c + 1, 3 * c + 2
    px, py, pz = before = p[:, x].copy(), p[:, y].copy(), p[:, z].copy()
    w = _row(A, v, p, x), _row(A, v, p, y), _row(A, v, p, z) - target
    stop = [old + more for old, more in zip(before, every.stopping(c, w), strict=True)]
    a, b, own = A[:, x, z], A[:, y, z], A[:, z, z]
    free = w[2] - (a * px + b * py + own * pz)
    most = mu * stop[2]
    sticks = (free < 0.0) & (stop[2] >= 0.0) & (stop[0] * stop[0] + stop[1] * stop[1] <= most * most)
    normal = np.maximum(0.0, pz - w[2] * every.z[:, c])
    tx = px - (w[0] + a * (normal - pz)) * every.share[:, c]
    ty = py - (w[1] + b * (normal - pz)) * every.share[:, c]
    length = np.sqrt(tx * tx + ty * ty)
    slides, inverse = length > mu * normal, 1.0 / np.maximum(length, np.finfo(A.dtype).tiny)
    along = own + mu * (a * tx + b * ty) * inverse
    ahead = slides & (along > WEDGED * own)
    normal = np.where(ahead, np.maximum(0.0, -free / np.where(ahead, along, 1.0)), normal)
    within = np.where(slides, mu * normal * inverse, 1.0)
    for k, old, stuck, new in zip((x, y, z), before, stop, (within * tx, within * ty, normal), strict=True):
        p[:, k] = np.where(sticks, stuck, new)
        np.maximum(residual, np.abs(p[:, k] - old), out=residual)


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
