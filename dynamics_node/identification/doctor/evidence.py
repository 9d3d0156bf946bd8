"""What there is to see of an inertia, in numbers that people know: density, equivalent box, where the centre
of mass lies."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.doctor.oddness import second_moments

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
