"""What a motion tells about the base parameters, and what it does not."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters, combination
from dynamics_node.identification.regression import spectrum

VAGUE = 1.0  # standard deviation, in sizes, beyond which a combination counts as not excited
NAMED = 0.2  # of the largest share, from which on a parameter is named


class Excitation(NamedTuple):
    """singular (r,): singular values, largest first, of the regressor over base parameters, divided by the
    noise of torques, in units of the parameters' `sizes`; their inverses are standard deviations. directions
    (r, r): the combinations, one a row, that they belong to. lost: combinations, in words, of which nothing
    is known even in the size of the largest such parameter of the robot, worst first."""

    singular: np.ndarray
    directions: np.ndarray
    names: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def condition(self):
        """How much better the best known combination is known than the worst."""
        least = self.singular[-1] if len(self.singular) else 1.0
        return float(self.singular[0] / least) if least > 0 else np.inf

    @property
    def weak(self):
        """Combinations that the motion hardly excites, worst first, in words."""
        return _below(self.singular, self.directions, self.names)


def excitation(base: BaseParameters, information, found) -> Excitation:
    """Of the sum of W^T W / noise^2 (r, r) over a motion, W the base regressor. found (p,): `sizes` of the
    bodies that it tells, for a description may be of none."""
    names = tuple(base.names[k] for k in base.chosen)
    kinds = np.array([name.rpartition(".")[2] for name in base.names])
    largest = np.array([found[kinds == kind].max() for kind in kinds])
    singular, directions = _singular(information, base.sizes[base.chosen])
    beside, of_these = _singular(information, largest[base.chosen])
    return Excitation(singular, directions, names, _below(beside, of_these, names))


def _singular(information, sizes):
    """Singular values, largest first, and directions as rows."""
    squares, vectors, _ = spectrum(information, sizes)
    return np.sqrt(np.maximum(squares[::-1], 0.0)), vectors.T[::-1]


def _below(singular, directions, names):
    vague = np.flatnonzero(singular * VAGUE < 1.0)[::-1]
    return tuple(_named(directions[k], names) for k in vague)


def _named(direction, names):
    large = np.abs(direction) >= NAMED * np.abs(direction).max()
    return combination(np.where(large, direction, 0.0), names, figures=2)
