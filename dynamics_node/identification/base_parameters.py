"""Base parameters: the fewest linear combinations of parameters that torques depend on.

Of a robot without noise and with every motion allowed, columns of the regressor at random states depend on
each other exactly as they do everywhere (Gautier, Numerical calculation of the base inertial parameters of
robots, 1991). They are taken from the root to the tips: a column that follows from those before is none of
the base, and its parameter counts with theirs; so the mass of a link on its joint's axis counts with the
link before. `excitation` names the combinations that one motion leaves open.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.identification.regression import spectrum
from dynamics_node.identification.regressor_model import RegressorModel

TOLERANCE = 1e-7  # of a column's length, below which what it adds to those before is rounding
REACH = 3.0  # rad or m of random positions
NOTHING = 1e-12  # of the longest column: a shorter one is rounding
SPARE = 3  # equations for every parameter


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """names (p,): of all parameters; chosen (r,): columns of the base; combinations (r, p): each row is a
    base parameter, with 1 at its own column; felt (nv, p) bool: which torques depend on which parameter at
    all; sizes (p,): what is usual, see `RegressorModel.sizes`."""

    names: tuple[str, ...]
    joints: tuple[str, ...]
    chosen: np.ndarray
    combinations: np.ndarray
    felt: np.ndarray
    sizes: np.ndarray

    @property
    def count(self):
        return len(self.chosen)

    def values(self, parameters):
        """(..., r) of parameters (..., p)."""
        return parameters @ self.combinations.T

    def reduced(self, matrix):
        """(..., r) of a regressor (..., p): matrix @ parameters = reduced(matrix) @ values(parameters)."""
        return matrix[..., self.chosen]

    @property
    def unidentifiable(self):
        """Names of the parameters that no torque depends on."""
        counted = (self.combinations != 0).sum(axis=0).tolist()
        return tuple(name for name, counts in zip(self.names, counted, strict=True) if not counts)

    @property
    def alone(self):
        """Names of the parameters that can be known by themselves."""
        together = (self.combinations != 0).sum(axis=1) > 1
        return tuple(
            self.names[column] for column, more in zip(self.chosen, together, strict=True) if not more
        )

    @property
    def told(self):
        """The base parameters, in words: 'a.Izz + b.Iyy - 0.04 b.m'."""
        return tuple(combination(row, self.names, first) for row, first in self._rows())

    @property
    def felt_by(self):
        """Of every base parameter the coordinates whose torques depend on it."""
        return tuple(tuple(np.array(self.joints)[self.felt[:, column]]) for column in self.chosen)

    def _rows(self):
        return zip(self.combinations, self.chosen, strict=True)


def combination(row, names, first=None, figures=4):
    """A linear combination (p,) in words, the coefficient of `first` before the others."""
    order = [k for k in ([] if first is None else [first]) + np.flatnonzero(row).tolist() if row[k]]
    parts = []
    for k in dict.fromkeys(order):
        sign = "-" if row[k] < 0 else "+"
        size = "" if np.isclose(abs(row[k]), 1.0, rtol=1e-9) else f"{abs(row[k]):.{figures}g} "
        parts.append(f"{sign} {size}{names[k]}")
    return " ".join(parts).removeprefix("+ ")


def base_parameters(linear: RegressorModel, measured=None, tolerance=TOLERANCE, seed=0) -> BaseParameters:
    """Of a robot, whatever its motion. measured: names of the coordinates whose torques are known, all by
    default; tolerance: of a column's length, below which a difference counts as none.

    Raises ValueError for an unknown coordinate.
    """
    robot = linear.robot
    rows = _rows_of(robot.v_names, measured)
    count = 2 + SPARE * len(linear.names) // max(1, len(rows))
    W = linear.matrix(*random_states(robot, count, seed))[:, rows, :]
    size = np.abs(W).max(axis=(1, 2), keepdims=True)
    W = W[np.isfinite(size[:, 0, 0])] / np.maximum(size[np.isfinite(size[:, 0, 0])], 1e-300)
    felt = np.zeros((robot.nv, len(linear.names)), dtype=bool)
    felt[rows] = np.abs(W).max(axis=0, initial=0.0) > tolerance * np.abs(W).max(axis=(0, 1), initial=1e-300)
    chosen, combinations = independent_columns(W.reshape(-1, W.shape[-1]), tolerance)
    return BaseParameters(linear.names, tuple(robot.v_names), chosen, combinations, felt, linear.sizes)


def random_states(robot, count, seed=0):
    """q (k, nq), qd and qdd (k, nv) all over what a robot can do; of one with loops, where these close."""
    random = np.random.default_rng(seed)
    q = np.asarray(closed_samples(robot, count, random, REACH))
    return q, *random.uniform(-2.0, 2.0, (2, len(q), robot.nv))


def _rows_of(names, measured):
    if measured is None:
        return list(range(len(names)))
    if unknown := [name for name in measured if name not in names]:
        raise ValueError(f"unknown coordinate {unknown[0]!r}; there are {', '.join(names)}")
    return [k for k, name in enumerate(names) if name in measured]


def independent_columns(W, tolerance=TOLERANCE):
    """Columns (r,) of W (rows, p) that do not follow from those before, and the combinations (r, p) with W
    = W[:, columns] @ combinations."""
    lengths = np.linalg.norm(W, axis=0)
    counts = np.flatnonzero(lengths > NOTHING * lengths.max(initial=0.0))
    unit = W[:, counts] / lengths[counts]
    basis = np.zeros((len(W), 0))
    kept: list[int] = []
    for k, column in enumerate(unit.T):
        rest = column
        for _ in range(2):  # once more takes out what rounding has left
            rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > tolerance:
            basis = np.column_stack([basis, rest / left])
            kept.append(k)
    shares = np.linalg.lstsq(unit[:, kept], unit, rcond=None)[0]
    shares[np.abs(shares) < tolerance] = 0.0
    shares[:, kept] = np.eye(len(kept))
    columns = counts[kept]
    combinations = np.zeros((len(columns), W.shape[1]))
    combinations[:, counts] = shares * lengths[counts] / lengths[columns, None]
    return columns, combinations


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
