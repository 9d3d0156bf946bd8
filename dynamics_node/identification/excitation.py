"""What a motion tells about the base parameters, and what it does not."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters, combination

VAGUE = 1.0  # standard deviation, in usual sizes, beyond which a combination counts as not excited
NAMED = 0.2  # of the largest share, from which on a parameter is named
_AXES = ("xx", "xy", "yy", "xz", "yz", "zz")
_SIZES = {"mx": 0.1, "my": 0.1, "mz": 0.1, "rotor": 0.01} | {f"I{axes}": 0.01 for axes in _AXES}


class Excitation(NamedTuple):
    """singular (r,): singular values, largest first, of the regressor over base parameters, divided by the
    noise of torques, in units of usual sizes: 1 kg, 0.1 kg m, 0.01 kg m^2, 1 N m, 1 N m s/rad; their inverses
    are standard deviations. directions (r, r): the combinations, one a row, that they belong to."""

    singular: np.ndarray
    directions: np.ndarray
    names: tuple[str, ...]

    @property
    def condition(self):
        """How much better the best known combination is known than the worst."""
        least = self.singular[-1] if len(self.singular) else 1.0
        return float(self.singular[0] / least) if least > 0 else np.inf

    @property
    def weak(self):
        """Combinations that the motion does not excite, worst first, in words."""
        lost = np.flatnonzero(self.singular * VAGUE < 1.0)[::-1]
        return tuple(_named(self.directions[k], self.names) for k in lost)


def excitation(base: BaseParameters, information) -> Excitation:
    """Of the sum of W^T W / noise^2 (r, r) over a motion, W the base regressor."""
    sizes = np.array([usual_size(base.names[k]) for k in base.chosen])
    squares, vectors = np.linalg.eigh(information * np.outer(sizes, sizes))
    singular = np.sqrt(np.maximum(squares[::-1], 0.0))
    return Excitation(singular, vectors.T[::-1], tuple(base.names[k] for k in base.chosen))


def usual_size(name):
    """Of a parameter, by its name."""
    return _SIZES.get(name.rpartition(".")[2], 1.0)


def _named(direction, names):
    large = np.abs(direction) >= NAMED * np.abs(direction).max()
    return combination(np.where(large, direction, 0.0), names, figures=2)
