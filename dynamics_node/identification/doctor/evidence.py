"""Features of an inertia relative to the geometry of its link, and their joint likelihood.

The inertia of a link and the solid of its geometry agree in density, size, center and directions up to the
spread of good robots. Each difference has a Student's t likelihood with 4 degrees of freedom, so that one
outlier does not dominate. The scales below are approximately the interquartile range of 1032 moving links of
68 descriptions; an oddness of 0 is the best possible. Links with congruent or mirrored geometry are compared
with each other.
"""

from itertools import permutations, product
from typing import NamedTuple

import numpy as np

DENSITIES = (100.0, 8000.0)  # kg/m^3 of convex hulls, from hollow links to steel
LARGER = 1.5  # times the link's size: larger equivalent boxes are reported
SMALLER = 0.3  # times the link's size: smaller ones are reported
OUTSIDE = 0.1  # fraction of the link's diagonal: larger distances from its bounding box are reported; mass
#              that no shape contains is assumed to be nearer


class EquivalentEllipsoid(NamedTuple):
    """The ellipsoid and the box of uniform density with a link's mass, center and inertia. half_axes (3,) m
    of the ellipsoid and sides (3,) m of the box, nan if it does not exist; axes (3, 3): their directions, in
    columns; center (3,): m. All in link axes."""

    half_axes: np.ndarray
    sides: np.ndarray
    axes: np.ndarray
    center: np.ndarray


def ellipsoid(inertial) -> EquivalentEllipsoid:
    """Ellipsoid of a link with mass: its principal mean squares are sides^2 / 12 and half_axes^2 / 5."""
    squares, axes = np.linalg.eigh(second_moments(inertial))
    squares = np.where(squares < -1e-9 * np.abs(squares).max(), np.nan, np.maximum(squares, 0))
    return EquivalentEllipsoid(np.sqrt(5 * squares), np.sqrt(12 * squares), axes, np.asarray(inertial.com))


def describe_anomalies(inertial, solid) -> list[str]:
    """Visible problems of an inertia, one sentence each."""
    anomalies: list[str] = []
    if inertial.mass <= 0:
        return anomalies
    shape = ellipsoid(inertial)
    if np.isnan(shape.sides).any():
        moments = np.linalg.eigvalsh(inertial.inertia)
        anomalies.append(
            "principal moments {:.3g}, {:.3g}, {:.3g} kg m^2 break the triangle inequality".format(*moments)
        )
    if solid is None:
        return anomalies
    density = inertial.mass / solid.volume
    if not DENSITIES[0] <= density <= DENSITIES[1]:
        anomalies.append(f"its density would be {density:.3g} kg/m^3")
    if (used := float(share_of_largest(inertial, solid))) > 1:
        anomalies.append(
            f"its inertia is {used:.3g} times the largest that a mass within its shapes can have"
        )
    ratio = np.linalg.norm(np.nan_to_num(shape.sides)) / np.sqrt(12 * np.trace(solid.second))
    if ratio > LARGER or ratio < SMALLER:
        size = "larger" if ratio > 1 else "smaller"
        times = ratio if ratio > 1 else 1 / max(ratio, 1e-12)
        anomalies.append(f"a box with its inertia is {times:.3g} times {size} than the link")
    outside = np.maximum(solid.low - inertial.com, inertial.com - solid.high).max() / solid.diagonal
    if outside > OUTSIDE:
        away = np.linalg.norm(inertial.com - solid.center)
        anomalies.append(f"its center of mass lies outside, {away:.3g} m from the center of the link")
    return anomalies


DENSITY = (6.9, 0.8)  # median and scale of the logarithm of kg/m^3, of convex hulls
SIZE = (0.15, 0.35)  # ... of the logarithm of mean squared distance from the center, relative to the solid's
CENTER = 0.5  # scale of the distance of the centers, in standard deviations of the solid
MOMENTS = 0.085  # ... of the difference of the diagonals of both inertia matrices, scaled to trace 1
PRODUCTS = 0.025  # ... and of their off-diagonal entries
SCALES = (0.3, 1.5)  # range of the robot-specific factor of these scales
PRIOR_LINKS = 4  # weight of the prior scale, in links
DEGREES_OF_FREEDOM = 4  # of Student's t
INCONSISTENT = 6.0  # oddness of an impossible inertia
TINY = 1e-12  # fraction of the solid's second moment: lower bound


class MassProperties(NamedTuple):
    """mass (...,) kg, com (..., 3) m, inertia (..., 3, 3) kg m^2 about the com, in link axes."""

    mass: np.ndarray
    com: np.ndarray
    inertia: np.ndarray

    def at(self, index):
        """The MassProperties at an index."""
        return MassProperties(*(part[index] for part in self))


def stacked(inertials) -> MassProperties:
    """Several Inertials as one with a leading axis."""
    return MassProperties(*(np.array(part, dtype=float) for part in zip(*inertials, strict=True)))


def second_moments(inertial):
    """(..., 3, 3) m^2: mean of (r - com)(r - com)^T over the mass; inertia is its trace minus itself."""
    inertia = inertial.inertia
    trace = np.trace(inertia, axis1=-2, axis2=-1)[..., None, None]
    return (0.5 * trace * np.eye(3) - inertia) / np.asarray(inertial.mass)[..., None, None]


def differences(inertial, solid):
    """{name: (...,)}: differences between Inertials with mass and a Solid in units of their typical scales.
    The arrays of the Solid may have leading axes, too."""
    spread = second_moments(inertial)
    size, seen = (np.trace(s, axis1=-2, axis2=-1) for s in (spread, solid.second))
    away = inertial.com - solid.center
    far = np.einsum("...i,...ij,...j->...", away, np.linalg.inv(solid.second), away)
    turned = _shape(spread) - _shape(solid.second)
    diagonal = np.diagonal(turned, axis1=-2, axis2=-1)
    products = np.stack([turned[..., 0, 1], turned[..., 0, 2], turned[..., 1, 2]], axis=-1)
    return {
        "density": (np.log(inertial.mass / solid.volume) - DENSITY[0]) / DENSITY[1],
        "size": (np.log(np.maximum(size, TINY * seen) / seen) - SIZE[0]) / SIZE[1],
        "center": np.sqrt(far) / CENTER,
        "moments": np.linalg.norm(diagonal, axis=-1) / MOMENTS,
        "products": np.linalg.norm(products, axis=-1) / PRODUCTS,
    }


def oddness(inertial, solid, scales=None):
    """Oddness (...,) of Inertials with mass for a Solid, and its parts by name. scales: from
    `usual_scales`."""
    scales = scales or {}
    z_scores = differences(inertial, solid)
    parts = {name: _student(z / scales.get(name, 1.0)) for name, z in z_scores.items()}
    parts["impossible"] = np.where(is_impossible(inertial, solid), INCONSISTENT, 0.0)
    return sum(parts.values()), parts


def usual_scales(inertial, solid):
    """{name: scale} of the typical differences of this robot's links, stacked; they are small for robots
    exported from CAD. The prior counts as much as PRIOR_LINKS links."""
    middle = {name: np.median(z * z) / 0.455 for name, z in differences(inertial, solid).items()}
    count = len(inertial.mass)
    return {
        name: float(np.clip(np.sqrt((PRIOR_LINKS + count * square) / (PRIOR_LINKS + count)), *SCALES))
        for name, square in middle.items()
    }


def is_inconsistent(inertial):
    """(...,) bool: no mass distribution has this inertia; flat bodies are allowed."""
    low = np.linalg.eigvalsh(second_moments(inertial))
    return low[..., 0] < -1e-4 * np.maximum(np.abs(low).max(axis=-1), 1e-300)


def share_of_largest(inertial, solid):
    """(...,): trace of the inertia, divided by the largest of any mass within the shapes of the link with
    this center of mass; above 1, it is impossible. The arrays of the Solid may have leading axes, too.

    A coordinate x within (a, b) with mean c has a variance of at most (b - c)(c - a) (Bhatia and Davis, A
    better bound on the variance, 2000). Within a ball of radius R, the mean squared distance from a center of
    mass at a distance d is at most R^2 - d^2. The smaller bound counts. Shapes may lack parts of a link: the
    box and the ball contain the center of mass, and are larger by OUTSIDE times the diagonal.
    """
    low, high = solid.bounds[..., 0, :], solid.bounds[..., 1, :]
    margin = OUTSIDE * np.linalg.norm(high - low, axis=-1)[..., None]
    com = inertial.com
    box = ((np.maximum(high, com) + margin - com) * (com - np.minimum(low, com) + margin)).sum(axis=-1)
    away = np.linalg.norm(com - solid.center, axis=-1)
    ball = (np.maximum(solid.radius, away) + margin[..., 0]) ** 2 - away**2
    return np.trace(second_moments(inertial), axis1=-2, axis2=-1) / np.minimum(box, ball)


def is_impossible(inertial, solid):
    """(...,) bool: no mass distribution within the shapes of the link has this inertia."""
    return is_inconsistent(inertial) | (share_of_largest(inertial, solid) > 1)


def _shape(spread):
    """Inertia matrix (..., 3, 3) of second moments, scaled to trace 1."""
    trace = np.trace(spread, axis1=-2, axis2=-1)[..., None, None]
    return 0.5 * (np.eye(3) - spread / np.where(trace > 0, trace, np.inf))


def _student(z):
    return 0.5 * (DEGREES_OF_FREEDOM + 1) * np.log1p(z * z / DEGREES_OF_FREEDOM)


ALIKE = 0.01  # fraction of their size: largest difference of the solids of sisters
CLOSE = 0.03  # typical difference of their inertias
_SIGNED = np.array(
    [
        np.diag(signs) @ np.eye(3)[list(order)]
        for order in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    ]
)


class Sister(NamedTuple):
    """place: index of another link; symmetries (n, 3, 3): rotations and reflections that map its solid onto
    this one."""

    place: int
    symmetries: np.ndarray


def find_sisters(solids):
    """For each of a sequence of Solids, a tuple of Sister."""
    sisters: list[list[Sister]] = [[] for _ in solids]
    for i, one in enumerate(solids):
        for j, other in enumerate(solids[:i]):
            if abs(one.volume - other.volume) > 3 * ALIKE * one.volume:
                continue
            symmetries = _symmetries(one, other)
            if len(symmetries):
                sisters[i].append(Sister(j, symmetries))
                sisters[j].append(Sister(i, symmetries.transpose(0, 2, 1)))
    return [tuple(found) for found in sisters]


def _symmetries(one, other):
    """(n, 3, 3): Q with Q other = one."""
    size = one.diagonal
    centers = np.abs(_SIGNED @ other.center - one.center).max(axis=1) < ALIKE * size
    seconds = _SIGNED @ other.second @ _SIGNED.transpose(0, 2, 1)
    alike = np.abs(seconds - one.second).max(axis=(1, 2)) < ALIKE * np.trace(one.second)
    corners = np.sort(_SIGNED @ np.array([other.low, other.high]).T, axis=2)
    boxes = np.abs(corners - np.array([one.low, one.high]).T).max(axis=(1, 2)) < ALIKE * size
    return _SIGNED[centers & alike & boxes]


def sister_distance(inertials, solid, sisters, others):
    """Negative log-likelihood (n,) of the distance of n stacked Inertials of one link from its nearest
    sister; 0 for a link without sisters. others: the Inertials of all links, None for those that are not
    compared."""
    nearest = np.full(len(inertials.mass), np.inf)
    size, spreads = np.trace(solid.second), second_moments(inertials)
    for sister in sisters:
        other = others[sister.place]
        if other is None:
            continue
        spread = sister.symmetries @ second_moments(other) @ sister.symmetries.transpose(0, 2, 1)
        com = sister.symmetries @ other.com
        mass = np.log(inertials.mass / other.mass)[:, None]
        away = np.linalg.norm(inertials.com[:, None] - com, axis=2) / np.sqrt(size)
        apart = np.linalg.norm(spreads[:, None] - spread, axis=(2, 3)) / size
        nearest = np.minimum(nearest, (mass**2 + away**2 + apart**2).min(axis=1))
    return np.where(np.isfinite(nearest), np.log1p(np.minimum(nearest, 1.0) / CLOSE**2), 0.0)
