"""Points and balls above the ground, on symbols: their distances, and where and along which axes it pushes.

A Terrain is a height h(x, y). Its normal is (-h_x, -h_y, 1) / sqrt(1 + h_x^2 + h_y^2), by exact derivatives.
The distance of a point is its height above the terrain along the normal below it: exact on flat parts and at
the terrain, to first order between. A ball looks for its nearest place in two steps: along the normal below
its center, then along the normal below the place that this finds.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_equations import axes_of_normal
from dynamics_node.errors import ContactError
from dynamics_node.robot.contacts import Plane, Terrain
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.text import one_line

STEPS = 10  # of Newton's iteration for the length of a normal: slopes up to 85 degrees
_FAULTS = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError)


class Height(NamedTuple):
    """Programs of x, y (): `height` (), and its derivatives."""

    value: Program
    slopes: Program

    def at(self, x, y):
        """(height, derivatives by x and y)"""
        slopes = interpret(self.slopes, x=x, y=y)
        return interpret(self.value, x=x, y=y)["height"], [slopes[derivative_name("height", a)] for a in "xy"]


class SurfacePoint(NamedTuple):
    """gap: distance from a surface, m; point (3,): where that pushes, and axes (3, 3) along whose rows, the
    normal last; all in axes of the world. loss: None for a plane; where it exceeds 1e-3, the slope has no
    result."""

    gap: object
    point: np.ndarray
    axes: np.ndarray
    loss: object = None


def place_above(surface, center, radius) -> SurfacePoint:
    """The SurfacePoint of a ball, or of a point with radius 0. center (3,)."""
    if isinstance(surface, Plane):
        axes = axes_of_normal(surface.normal)
        point = center - radius * axes[2] if radius else center
        return SurfacePoint(axes[2] @ center - (surface.offset + radius), point, axes)
    height = height_of(surface)
    z, axes, loss = _axes_at(height, *center[:2])
    if not radius:
        return SurfacePoint((center[2] - z) * axes[2, 2], center, axes, loss)
    lowest = center - radius * axes[2]
    z, axes, below = _axes_at(height, *lowest[:2])
    gap = axes[2] @ (center - np.array([*lowest[:2], z])) - radius
    return SurfacePoint(gap, center - radius * axes[2], axes, loss + below)


def _axes_at(height, x, y):
    """Height at x, y; axes of the world after the shortest turn to the normal there; loss."""
    z, (a, b) = height.at(x, y)
    s = 1.0 + a * a + b * b
    c, loss = _inverse_root(s)
    a, b = c * a, c * b
    share = 1.0 / (1.0 + c)
    ab = -share * a * b
    return z, np.array([[1.0 - share * a * a, ab, a], [ab, 1.0 - share * b * b, b], [-a, -b, c]]), loss


def _inverse_root(s):
    """1 / sqrt(s) by Newton's iteration y for s of at least 1, and 1 - s y^2 before the last step."""
    y = 2.0 / (1.0 + s)
    for _ in range(STEPS):
        loss = 1.0 - s * y * y
        y = y + 0.5 * y * loss
    return y, loss


def height_of(terrain: Terrain) -> Height:
    """The Programs of a Terrain. Raises ContactError for a function that cannot be traced."""
    return _traced(terrain.height)


@lru_cache(maxsize=64)
def _traced(height) -> Height:
    try:
        value = trace(lambda x, y: {"height": height(x, y)}, {"x": (), "y": ()})
    except _FAULTS as error:
        raise ContactError(f"{_USE}: {one_line(error, 200)}") from None
    if value.outputs["height"].shape != ():
        raise ContactError(f"{_USE}: the height has the shape {value.outputs['height'].shape}, not ()")
    return Height(value, jacobian(value, ["height"], ["x", "y"]))


_USE = "terrain: height(x, y) must return a number made of x and y by +, -, *, /, numpy.sin and numpy.cos"
