"""Features of an inertia beside the solid of its link, and the likelihood of both together.

The inertia of a link and the solid that it looks like agree in density, in size, in center and in directions
up to what the links of good robots do; each difference is worth a Student's t (4 degrees of freedom, so that
one far off does not drown the others). The scales below are about the middle half of 1032 moving links of 68
descriptions; what is 0 is as good as the best of them. Links that look alike, up to axes exchanged and
mirrored, are compared with each other.
"""

from itertools import permutations, product
from typing import NamedTuple

import numpy as np

DENSITIES = (100.0, 8000.0)  # kg/m^3 of convex hulls; outside a link is hollow, or heavier than steel
LARGER = 1.5  # times the link's own size, from which on a box is too large
SMALLER = 0.3
OUTSIDE = 0.1  # of the link's diagonal beyond its bounding box


class Ellipsoid(NamedTuple):
    """The ellipsoid and the box of uniform density with a link's mass, centre and inertia. half_axes (3,) m
    of the ellipsoid, sides (3,) m of the box: nan where there is none; axes (3, 3): their directions, in
    columns; centre (3,): m. All in link axes."""

    half_axes: np.ndarray
    sides: np.ndarray
    axes: np.ndarray
    centre: np.ndarray


def ellipsoid(inertial) -> Ellipsoid:
    """Of an Inertial with mass: mean squares along its axes are sides^2 / 12 and half_axes^2 / 5."""
    squares, axes = np.linalg.eigh(second_moments(inertial))
    squares = np.where(squares < -1e-9 * np.abs(squares).max(), np.nan, np.maximum(squares, 0))
    return Ellipsoid(np.sqrt(5 * squares), np.sqrt(12 * squares), axes, np.asarray(inertial.com))


def words(inertial, solid) -> list[str]:
    """What is odd to the eye, one thing each."""
    found: list[str] = []
    if inertial.mass <= 0:
        return found
    shape = ellipsoid(inertial)
    if np.isnan(shape.sides).any():
        moments = np.linalg.eigvalsh(inertial.inertia)
        found.append(
            "principal moments {:.3g}, {:.3g}, {:.3g} kg m^2 break the triangle inequality".format(*moments)
        )
    if solid is None:
        return found
    density = inertial.mass / solid.volume
    if not DENSITIES[0] <= density <= DENSITIES[1]:
        found.append(f"its density would be {density:.3g} kg/m^3")
    ratio = np.linalg.norm(np.nan_to_num(shape.sides)) / np.sqrt(12 * np.trace(solid.second))
    if ratio > LARGER or ratio < SMALLER:
        size = "larger" if ratio > 1 else "smaller"
        times = ratio if ratio > 1 else 1 / max(ratio, 1e-12)
        found.append(f"a box with its inertia is {times:.3g} times {size} than the link")
    beyond = np.maximum(solid.low - inertial.com, inertial.com - solid.high).max() / solid.diagonal
    if beyond > OUTSIDE:
        away = np.linalg.norm(inertial.com - solid.centre)
        found.append(f"its centre of mass lies outside, {away:.3g} m from the middle of the link")
    return found


DENSITY = (6.9, 0.8)  # median and scale of the logarithm of kg/m^3, of convex hulls
SIZE = (0.15, 0.35)  # ... of the logarithm of mean squared distance from the centre, beside the solid's
CENTRE = 0.5  # scale of the distance of both centres, in standard deviations of the solid
MOMENTS = 0.085  # ... of the distance of both inertia matrices of trace 1, on the diagonal
PRODUCTS = 0.025  # ... and beside it
SCALES = (0.3, 1.5)  # how much less or more the links of one robot may usually differ
BEFOREHAND = 4  # links
FREEDOM = 4  # degrees, of Student's t
IMPOSSIBLE = 6.0  # for an inertia that no mass distribution has
TINY = 1e-12  # beside the solid's second moment: as good as nothing


class Inertial(NamedTuple):
    """mass (...,) kg, com (..., 3) m, inertia (..., 3, 3) kg m^2 about the com, in link axes."""

    mass: np.ndarray
    com: np.ndarray
    inertia: np.ndarray

    def at(self, index):
        """One of several."""
        return Inertial(*(part[index] for part in self))


def stacked(inertials) -> Inertial:
    """Several, one after the other."""
    return Inertial(*(np.array(part, dtype=float) for part in zip(*inertials, strict=True)))


def second_moments(inertial):
    """(..., 3, 3) m^2: mean of (r - com)(r - com)^T over the mass; inertia is its trace minus itself."""
    inertia = inertial.inertia
    trace = np.trace(inertia, axis1=-2, axis2=-1)[..., None, None]
    return (0.5 * trace * np.eye(3) - inertia) / np.asarray(inertial.mass)[..., None, None]


def differences(inertial, solid):
    """{name: (...,)} what distinguishes masses above 0 from a Solid, whose arrays may have leading axes too,
    in usual differences."""
    spread = second_moments(inertial)
    own, seen = (np.trace(s, axis1=-2, axis2=-1) for s in (spread, solid.second))
    away = inertial.com - solid.centre
    far = np.einsum("...i,...ij,...j->...", away, np.linalg.inv(solid.second), away)
    turned = _shape(spread) - _shape(solid.second)
    diagonal = np.diagonal(turned, axis1=-2, axis2=-1)
    products = np.stack([turned[..., 0, 1], turned[..., 0, 2], turned[..., 1, 2]], axis=-1)
    return {
        "density": (np.log(inertial.mass / solid.volume) - DENSITY[0]) / DENSITY[1],
        "size": (np.log(np.maximum(own, TINY * seen) / seen) - SIZE[0]) / SIZE[1],
        "centre": np.sqrt(far) / CENTRE,
        "moments": np.linalg.norm(diagonal, axis=-1) / MOMENTS,
        "products": np.linalg.norm(products, axis=-1) / PRODUCTS,
    }


def oddness(inertial, solid, scales=None):
    """(...,) of masses above 0 beside a Solid; and its parts by name. scales: of `usual_scales`."""
    scales = scales or {}
    found = differences(inertial, solid)
    parts = {name: _student(z / scales.get(name, 1.0)) for name, z in found.items()}
    parts["impossible"] = np.where(is_impossible(inertial), IMPOSSIBLE, 0.0)
    return sum(parts.values()), parts


def usual_scales(inertial, solid):
    """{name: scale} of the differences that the links of this robot usually have, stacked: of a robot out of
    CAD less than others'. As if BEFOREHAND links were as usual."""
    middle = {name: np.median(z * z) / 0.455 for name, z in differences(inertial, solid).items()}
    count = len(inertial.mass)
    return {
        name: float(np.clip(np.sqrt((BEFOREHAND + count * square) / (BEFOREHAND + count)), *SCALES))
        for name, square in middle.items()
    }


def is_impossible(inertial):
    """(...,) bool: no mass distribution has this inertia; that of a flat thing is allowed."""
    low = np.linalg.eigvalsh(second_moments(inertial))
    return low[..., 0] < -1e-4 * np.maximum(np.abs(low).max(axis=-1), 1e-300)


def _shape(spread):
    """The inertia matrix of trace 1 (..., 3, 3) of second moments."""
    trace = np.trace(spread, axis1=-2, axis2=-1)[..., None, None]
    return 0.5 * (np.eye(3) - spread / np.where(trace > 0, trace, np.inf))


def _student(z):
    return 0.5 * (FREEDOM + 1) * np.log1p(z * z / FREEDOM)


ALIKE = 0.01  # what solids of sisters may differ in, beside their size
CLOSE = 0.03  # ... and their inertias, usually
_SIGNED = np.array(
    [
        np.diag(signs) @ np.eye(3)[list(order)]
        for order in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    ]
)


class Sister(NamedTuple):
    """place of another link; ways (n, 3, 3): the turns and mirrors by which its solid becomes this one's."""

    place: int
    ways: np.ndarray


def find_sisters(solids):
    """For each of a sequence of Solids a tuple of Sister."""
    found: list[list[Sister]] = [[] for _ in solids]
    for i, one in enumerate(solids):
        for j, other in enumerate(solids[:i]):
            if abs(one.volume - other.volume) > 3 * ALIKE * one.volume:
                continue
            ways = _ways(one, other)
            if len(ways):
                found[i].append(Sister(j, ways))
                found[j].append(Sister(i, ways.transpose(0, 2, 1)))
    return [tuple(sisters) for sisters in found]


def _ways(one, other):
    """(n, 3, 3): Q with Q other = one."""
    size = one.diagonal
    centres = np.abs(_SIGNED @ other.centre - one.centre).max(axis=1) < ALIKE * size
    seconds = _SIGNED @ other.second @ _SIGNED.transpose(0, 2, 1)
    alike = np.abs(seconds - one.second).max(axis=(1, 2)) < ALIKE * np.trace(one.second)
    corners = np.sort(_SIGNED @ np.array([other.low, other.high]).T, axis=2)
    boxes = np.abs(corners - np.array([one.low, one.high]).T).max(axis=(1, 2)) < ALIKE * size
    return _SIGNED[centres & alike & boxes]


def strangeness(inertials, solid, sisters, others):
    """(n,): how far n Inertials of one link, stacked, are from the nearest of its sisters, as minus the
    logarithm of a likelihood; 0 for a link without. others: the Inertials of all links, None of those that
    are no measure."""
    nearest = np.full(len(inertials.mass), np.inf)
    size, own = np.trace(solid.second), second_moments(inertials)
    for sister in sisters:
        other = others[sister.place]
        if other is None:
            continue
        spread = sister.ways @ second_moments(other) @ sister.ways.transpose(0, 2, 1)
        com = sister.ways @ other.com
        mass = np.log(inertials.mass / other.mass)[:, None]
        away = np.linalg.norm(inertials.com[:, None] - com, axis=2) / np.sqrt(size)
        apart = np.linalg.norm(own[:, None] - spread, axis=(2, 3)) / size
        nearest = np.minimum(nearest, (mass**2 + away**2 + apart**2).min(axis=1))
    return np.where(np.isfinite(nearest), np.log1p(np.minimum(nearest, 1.0) / CLOSE**2), 0.0)
