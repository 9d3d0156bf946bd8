"""The factors of a trajectory for GTSAM: custom factors that call compiled Programs.

There is one key per variable and step. What GTSAM sees under it is a step in the tangent from where the
variable is now, zero to begin with, so that quaternions stay of unit length.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from dynamics_node.graph.gtsam import require_gtsam
from dynamics_node.trajectory.errors import SingularPosition
from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph, weights_of
from dynamics_node.trajectory.gtsam_programs import compiled, difference_factor, factor_variables

SOFT = (
    1e-3  # standard deviation of an exact factor beside the least one of the others, where it must have one
)
SOFTEST = 1e-6
LOSSES = {"cauchy": "Cauchy", "geman_mcclure": "GemanMcClure"}  # of the same thresholds, half of our costs


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a first step: half the square of A error - b, A (free, columns), and error (columns,)
    by how much its variables differ from values."""

    values: dict[str, np.ndarray]
    A: np.ndarray
    b: np.ndarray


def known_by(graph: TrajectoryGraph, prior: Prior) -> Known:
    """The same as a Prior."""
    eigenvalues, vectors = np.linalg.eigh(prior.information)
    some = eigenvalues > 1e-14 * eigenvalues.max(initial=1e-300)
    root = np.sqrt(eigenvalues[some])
    return known_of(graph, prior.values, root[:, None] * vectors.T[some], vectors.T[some] @ prior.pull / root)


def known_of(graph: TrajectoryGraph, values, A, b) -> Known:
    """Of A (rows, free) and b (rows,), any number of them."""
    n = len(graph.free)
    rows = np.vstack([np.column_stack([A, b]), np.zeros((n, n + 1))])
    R: np.ndarray = np.linalg.qr(rows, mode="r")[:n]  # type: ignore[assignment]
    spread = np.zeros((n, len(graph.column_names)))
    spread[:, graph.free] = R[:, :n]
    return Known(values, spread, R[:, n])


@dataclass(eq=False)
class Window:
    """Steps and what is known of the first one. Factors read both when they are asked, so that they hold for
    other numbers."""

    steps: Steps
    known: Known

    @property
    def variables(self):
        return self.steps.graph.variables

    def keys(self, step):
        """Of all variables of a step."""
        return range(step * len(self.variables), (step + 1) * len(self.variables))

    @cached_property
    def _number(self):
        return {variable.name: k for k, variable in enumerate(self.variables)}

    def key(self, name, step):
        return step * len(self.variables) + self._number[name]

    def ordered_keys(self, step):
        """Of all variables of a step: first those that exact factors determine."""
        determined = {name for factor in self.steps.graph.exact for name, _ in factor.determines}
        names = sorted((v.name for v in self.variables), key=lambda name: name not in determined)
        return [self.key(name, step) for name in names]

    def factors(self, step, soft=None):
        """Of a step alone. soft: the standard deviation of exact ones; None: they are constraints."""
        return [self.factor(f, step, soft) for f in self.steps.graph.factors if not f.after]

    def links(self, step):
        """From a step to the next one."""
        return [self.factor(factor, step) for factor in self.steps.graph.factors if factor.after]

    def factor(self, factor: Factor, step, soft=None):
        """gtsam.CustomFactor"""
        places = [(name, step + ahead) for name, ahead, _ in factor.variables]
        keys = [self.key(*place) for place in places]
        error = partial(
            self._error, factor, compiled(factor, factor_variables(factor, self.variables)), places, keys
        )
        return require_gtsam().CustomFactor(_noise(factor, soft), keys, error)

    def _error(self, factor, call, places, keys, _, values, H):
        views, (_, step) = self.steps.views, places[0]
        now = [views[name][k] for name, k in places]
        found = call(*now, *map(values.atVector, keys), *(views[name][step] for name in factor.data))
        if found is None:
            raise SingularPosition(f"factor {factor.name!r} has no finite error at step {step}")
        error, *by = found
        if not factor.exact:
            root = np.sqrt(views[weights_of(factor.name)][step])
            error, by = root * error, [root[:, None] * J for J in by]
        if H is not None:
            for k, J in enumerate(by):
                H[k] = J
        return error

    def first(self):
        """gtsam.CustomFactor of what is known of the first step."""
        factor = difference_factor(self.steps.graph)
        call, keys = compiled(factor, self.variables), list(self.keys(0))

        def error(_, values, H):
            views, known = self.steps.views, self.known
            now = [views[variable.name][0] for variable in self.variables]
            at = [known.values[variable.name] for variable in self.variables]
            difference, *by = call(*now, *map(values.atVector, keys), *at)
            if H is not None:
                for k, J in enumerate(by):
                    H[k] = known.A @ J
            return known.A @ difference - known.b

        return require_gtsam().CustomFactor(
            require_gtsam().noiseModel.Unit.Create(len(self.known.b)), keys, error
        )

    def still(self, steps):
        """gtsam.Values: zero, of all variables at some steps."""
        values = require_gtsam().Values()
        for step in steps:
            for key, variable in zip(self.keys(step), self.variables, strict=True):
                values.insert(key, np.zeros(variable.tangent))
        return values

    def move(self, at):
        """All variables by at(key), in place. By how much, the largest of the steps."""
        largest = 0.0
        for step in range(len(self.steps)):
            change = [at(key) for key in self.keys(step)]
            for variable, d in zip(self.variables, change, strict=True):
                x = self.steps[variable.name]
                x[step] = variable.moved(x[step], d)
            largest = max(largest, float(sum(d @ d for d in change)))
        return largest**0.5


def softness(steps: Steps):
    """A standard deviation for exact factors that leaves them exact beside all others."""
    largest = max((steps[weights_of(factor.name)].max() for factor in steps.graph.weighted), default=1.0)
    return min(SOFTEST, SOFT / np.sqrt(max(largest, 1e-300)))


def _noise(factor, soft):
    """Of a factor whose errors are in standard deviations already."""
    models, rows = require_gtsam().noiseModel, len(factor.rows)
    if factor.exact:
        return models.Constrained.All(rows) if soft is None else models.Isotropic.Sigma(rows, soft)
    if factor.loss is None:
        return models.Unit.Create(rows)
    if factor.loss.name not in LOSSES:
        raise ValueError(f"factor {factor.name!r}: GTSAM has no loss {factor.loss.name!r}")
    estimator = getattr(models.mEstimator, LOSSES[factor.loss.name]).Create(factor.loss.threshold)
    return models.Robust.Create(estimator, models.Unit.Create(rows))
