"""How odd inertias are beside the solids of their links: minus the logarithm of a likelihood.

The inertia of a link and the solid that it looks like agree in density, in size, in centre and in directions
up to what the links of good robots do; each difference is worth a Student's t (4 degrees of freedom, so that
one far off does not drown the others). The scales below are about the middle half of 1032 moving links of 68
descriptions; what is 0 is as good as the best of them.
"""

from typing import NamedTuple

import numpy as np

DENSITY = (6.9, 0.8)  # median and scale of the logarithm of kg/m^3, of convex hulls
SIZE = (0.15, 0.35)  # ... of the logarithm of mean squared distance from the centre, beside the solid's
CENTRE = 0.5  # scale of the distance of both centres, in standard deviations of the solid
MOMENTS = 0.085  # ... of the distance of both inertia matrices of trace 1, on the diagonal
PRODUCTS = 0.025  # ... and beside it
SCALES = (0.3, 1.5)  # how much less or more the links of one robot may usually differ
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


def usual_scales(inertial, solid, beforehand=4):
    """{name: scale} of the differences that the links of this robot usually have, stacked: of a robot out of
    CAD less than others'. As if `beforehand` links were as usual."""
    middle = {name: np.median(z * z) / 0.455 for name, z in differences(inertial, solid).items()}
    count = len(inertial.mass)
    return {
        name: float(np.clip(np.sqrt((beforehand + count * square) / (beforehand + count)), *SCALES))
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


def _student(z, freedom=4):
    return 0.5 * (freedom + 1) * np.log1p(z * z / freedom)
