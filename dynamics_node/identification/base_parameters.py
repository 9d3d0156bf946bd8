"""Base parameters: the smallest set of linear combinations of parameters that determines the torques.

For a noise-free robot with unrestricted motion, the columns of the regressor have the same linear
dependencies at random states as everywhere (Gautier, Numerical calculation of the base inertial parameters of
robots, 1991). Columns are selected from the root to the tips: a column that depends linearly on earlier ones
is not part of the base, and its parameter is added to theirs. For example, the mass of a link on its joint's
axis is lumped with the previous link. `excitation` lists the combinations that a motion leaves undetermined.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.display import titled
from dynamics_node.identification.regression import spectrum
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot.wrong_calls import explains_wrong_calls

TOLERANCE = 1e-7  # fraction of a column's length: smaller independent parts are rounding errors
REACH = 3.0  # rad or m of random positions
NEGLIGIBLE = 1e-12  # fraction of the longest column: shorter ones are rounding errors
SPARE = 3  # equations per parameter


@dataclass(frozen=True, eq=False, repr=False)
class BaseParameters:
    """The base parameters of a robot: r combinations of its p parameters determine the torques.

    Attributes
    ----------
    names : tuple of str
        Names of all parameters.
    joints : tuple of str
        Names of the coordinates.
    chosen : ndarray (r,)
        Columns of the base.
    combinations : ndarray (r, p)
        One base parameter per row, with 1 in its own column.
    dependence : ndarray (nv, p) of bool
        Whether a torque depends on a parameter.
    sizes : ndarray (p,)
        Typical magnitudes, see `RegressorModel.sizes`.
    """

    names: tuple[str, ...]
    joints: tuple[str, ...]
    chosen: np.ndarray
    combinations: np.ndarray
    dependence: np.ndarray
    sizes: np.ndarray

    def __repr__(self):
        return titled(
            f"BaseParameters: {self.count} of {len(self.names)} parameters",
            joints=self.joints,
            alone=self.alone or None,
            unidentifiable=self.unidentifiable or None,
        )

    @property
    def count(self):
        return len(self.chosen)

    def values(self, parameters):
        """Base parameters (..., r) of parameters (..., p)."""
        return parameters @ self.combinations.T

    def reduced(self, matrix):
        """(..., r) of a regressor (..., p): matrix @ parameters = reduced(matrix) @ values(parameters)."""
        return matrix[..., self.chosen]

    @property
    def unidentifiable(self):
        """Names of the parameters that no torque depends on."""
        counts = (self.combinations != 0).sum(axis=0).tolist()
        return tuple(name for name, count in zip(self.names, counts, strict=True) if not count)

    @property
    def alone(self):
        """Names of the parameters that are identifiable individually."""
        together = (self.combinations != 0).sum(axis=1) > 1
        return tuple(
            self.names[column] for column, more in zip(self.chosen, together, strict=True) if not more
        )

    @property
    def expressions(self):
        """The base parameters as text: 'a.Izz + b.Iyy - 0.04 b.m'."""
        return tuple(combination(row, self.names, first) for row, first in self._rows())

    @property
    def affected_joints(self):
        """For each base parameter, the coordinates whose torques depend on it."""
        return tuple(tuple(np.array(self.joints)[self.dependence[:, column]]) for column in self.chosen)

    def _rows(self):
        return zip(self.combinations, self.chosen, strict=True)


def combination(row, names, first=None, figures=4):
    """Text of a linear combination (p,); the coefficient of `first` comes first."""
    order = [k for k in ([] if first is None else [first]) + np.flatnonzero(row).tolist() if row[k]]
    parts = []
    for k in dict.fromkeys(order):
        sign = "-" if row[k] < 0 else "+"
        size = "" if np.isclose(abs(row[k]), 1.0, rtol=1e-9) else f"{abs(row[k]):.{figures}g} "
        parts.append(f"{sign} {size}{names[k]}")
    return " ".join(parts).removeprefix("+ ")


@explains_wrong_calls
def base_parameters(linear: RegressorModel, tolerance: float = TOLERANCE, seed: int = 0) -> BaseParameters:
    """Find the smallest set of parameter combinations that determines the torques.

    The set depends on the robot alone, not on a motion. Columns of the regressor at random states are
    selected from the root to the tips. A column that depends on earlier ones is added to theirs.

    Parameters
    ----------
    linear : RegressorModel
        The torques as a linear function of p parameters.
    tolerance : float
        Fraction of a column's length: smaller independent parts count as zero.
    seed : int
        Seed of the random states.

    Returns
    -------
    BaseParameters
        `count` is their number r; `expressions` are their texts; `values(parameters)` computes them.

    Examples
    --------
    >>> base = dn.base_parameters(dn.RegressorModel(robot, ("inertia",), backend="numpy"))
    >>> base.count, len(base.names)
    (43, 70)
    >>> base.expressions[0]
    'panda_link1.Izz + panda_link2.Iyy'
    >>> base.unidentifiable[:3]  # the first link rotates about a vertical axis
    ('panda_link1.m', 'panda_link1.mx', 'panda_link1.my')

    References
    ----------
    Gautier, Numerical calculation of the base inertial parameters of robots, 1991.
    """
    robot = linear.robot
    rows = np.flatnonzero(linear.counts)
    count = 2 + SPARE * len(linear.names) // max(1, len(rows))
    W = linear.matrix(*random_states(robot, count, seed))[:, rows, :]
    size = np.abs(W).max(axis=(1, 2), keepdims=True)
    W = W[np.isfinite(size[:, 0, 0])] / np.maximum(size[np.isfinite(size[:, 0, 0])], 1e-300)
    dependence = np.zeros((robot.nv, len(linear.names)), dtype=bool)
    dependence[rows] = np.abs(W).max(axis=0, initial=0.0) > tolerance * np.abs(W).max(
        axis=(0, 1), initial=1e-300
    )
    chosen, combinations = independent_columns(W.reshape(-1, W.shape[-1]), tolerance)
    return BaseParameters(linear.names, tuple(robot.v_names), chosen, combinations, dependence, linear.sizes)


def random_states(robot, count, seed=0):
    """q (k, nq), qd and qdd (k, nv) over the whole configuration space; with loops, q is closed."""
    random = np.random.default_rng(seed)
    q = np.asarray(closed_samples(robot, count, random, REACH))
    return q, *random.uniform(-2.0, 2.0, (2, len(q), robot.nv))


def independent_columns(W, tolerance=TOLERANCE):
    """Indices (r,) of the linearly independent columns of W (rows, p), and the combinations (r, p) with W =
    W[:, columns] @ combinations."""
    lengths = np.linalg.norm(W, axis=0)
    counts = np.flatnonzero(lengths > NEGLIGIBLE * lengths.max(initial=0.0))
    unit = W[:, counts] / lengths[counts]
    basis = np.zeros((len(W), 0))
    selected: list[int] = []
    for k, column in enumerate(unit.T):
        residual = column
        for _ in range(2):  # a second pass removes rounding errors
            residual = residual - basis @ (basis.T @ residual)
        norm = np.linalg.norm(residual)
        if norm > tolerance:
            basis = np.column_stack([basis, residual / norm])
            selected.append(k)
    shares = np.linalg.lstsq(unit[:, selected], unit, rcond=None)[0]
    shares[np.abs(shares) < tolerance] = 0.0
    shares[:, selected] = np.eye(len(selected))
    columns = counts[selected]
    combinations = np.zeros((len(columns), W.shape[1]))
    combinations[:, counts] = shares * lengths[counts] / lengths[columns, None]
    return columns, combinations


UNEXCITED = 1.0  # standard deviation in sizes: larger ones mean that the motion does not excite a combination
INVISIBLE = 1e-4  # singular value: below it, a combination has practically no effect
NAMED_SHARE = 0.2  # fraction of the largest share: parameters with smaller shares are not listed


class Excitation(NamedTuple):
    """singular (r,): singular values, largest first, of the base regressor divided by the torque noise, in
    units of the parameters' `sizes`; their inverses are standard deviations. directions (r, r): their right
    singular vectors, one per row. undetermined: combinations, as text with the reason and worst first, that
    are not even known to within the largest size of such a parameter in the robot: the prior decides them."""

    singular: np.ndarray
    directions: np.ndarray
    names: tuple[str, ...]
    undetermined: tuple[str, ...]

    @property
    def condition(self):
        """Ratio of the largest to the smallest singular value."""
        least = self.singular[-1] if len(self.singular) else 1.0
        return float(self.singular[0] / least) if least > 0 else np.inf

    @property
    def weak(self):
        """Combinations that the motion barely excites, as text, worst first."""
        return _below(self.singular, self.directions, self.names)


def excitation(base: BaseParameters, information, sizes) -> Excitation:
    """Excitation of a motion. information (r, r): sum of W^T W / noise^2, with the base regressor W;
    sizes (p,): those that parameters may have, because a description may lack inertias."""
    names = tuple(base.names[k] for k in base.chosen)
    kinds = np.array([name.rpartition(".")[2] for name in base.names])
    largest = np.array([sizes[kinds == kind].max() for kind in kinds])
    singular, directions = _singular(information, base.sizes[base.chosen])
    scaled, scaled_directions = _singular(information, largest[base.chosen])
    undetermined = _below(scaled, scaled_directions, names, lambda size: f" ({_reason(size)})")
    return Excitation(singular, directions, names, undetermined)


def _reason(singular):
    """Why a combination is undetermined."""
    if singular < INVISIBLE:
        return "no effect on the torques of this motion"
    return f"standard deviation {1.0 / singular:.2g} times what the parameters may be"


def _singular(information, sizes):
    """Singular values, largest first, and directions as rows. Parameters without information have one of
    their own."""
    squares, vectors, seen = np.zeros(len(sizes)), np.eye(len(sizes)), information.any(axis=0)
    found = spectrum(information[np.ix_(seen, seen)], sizes[seen])
    squares[seen], vectors[np.ix_(seen, seen)] = found.values, found.directions
    order = np.argsort(-squares, kind="stable")
    return np.sqrt(np.maximum(squares[order], 0.0)), vectors.T[order]


def _below(singular, directions, names, suffix=lambda size: ""):
    vague = np.flatnonzero(singular * UNEXCITED < 1.0)[::-1]
    return tuple(_named(directions[k], names) + suffix(singular[k]) for k in vague)


def _named(direction, names):
    large = np.abs(direction) >= NAMED_SHARE * np.abs(direction).max()
    return combination(np.where(large, direction, 0.0), names, figures=2)
