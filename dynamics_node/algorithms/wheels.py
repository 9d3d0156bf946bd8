"""A wheel on a plane: where its disc is the lowest, and the directions of its forces there.

All vectors are in axes of the link. With the normal n of the plane, the axis a and d = n - (n . a) a, the
lowest point is center - radius d / |d|. The disc rolls along x = a x n / |d|, and y = n x x. |d|^2 is
s = 1 - (n . a)^2; Newton's iteration for 1 / sqrt(s) begins at 1, since a Program has no root. Its steps
suffice for s of cos^2 75 degrees.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic import Program, interpret, pushforward, trace

STEPS = 8
LEANING = 1e-12  # largest (1 - s y^2)^2 before the last step; the last one squares 1 - s y^2


class Wheel(NamedTuple):
    """center (3,), m; axis (3,), of length 1; radius, m; roller: angle of rollers, rad, or None."""

    center: tuple[float, ...]
    axis: tuple[float, ...]
    radius: float
    roller: float | None

    def directions(self, normal):
        """P (6, rows): wrenches on the link by unit forces, for the normal (3,)."""
        return interpret(_directions(self), n=normal)["P"]

    def change(self, normal, change):
        """The change (6, rows) of P with that (3,) of the normal."""
        return interpret(_changes(self), n=normal, fwd_n=change)["fwd_P"]

    def leaning(self, normal):
        """A number above LEANING if the wheel leans too much."""
        along = normal @ np.array(self.axis)
        return inverse_root(1.0 - along * along)[1]


def inverse_root(s):
    """y = 1 / sqrt(s), for s in [cos^2 75 degrees, 1], and (1 - s y^2)^2 before the last step."""
    y = 1.0
    for _ in range(STEPS):
        loss = 1.0 - s * y * y
        y = y + 0.5 * y * loss
    return y, loss * loss


@cache
def _directions(wheel) -> Program:
    def function(n):
        a = np.array(wheel.axis)
        along = n @ a
        y, _ = inverse_root(1.0 - along * along)
        point = np.array(wheel.center) - wheel.radius * y * (n - along * a)
        x = y * np.cross(a, n)
        forces = [x, np.cross(n, x)]
        if wheel.roller is not None:
            forces = [np.cos(wheel.roller) * forces[1] - np.sin(wheel.roller) * x]
        forces.append(n)
        return {"P": np.stack([np.concatenate([np.cross(point, f), f]) for f in forces], axis=1)}

    return trace(function, {"n": (3,)})


@cache
def _changes(wheel) -> Program:
    return pushforward(_directions(wheel), ["P"], ["n"])
