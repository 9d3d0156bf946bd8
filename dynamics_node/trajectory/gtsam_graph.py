"""A trajectory as a factor graph of GTSAM: for its optimizers, and to verify our own elimination."""

from functools import lru_cache
from itertools import pairwise

import numpy as np

from dynamics_node.codegen import Runner, make_runner
from dynamics_node.errors import InputError, SingularPosition
from dynamics_node.graph.by_gtsam import require_gtsam
from dynamics_node.robot import Shapes
from dynamics_node.symbolic import derivative_name, interpret, jacobian, trace
from dynamics_node.trajectory.factor import TrajectoryFactor, TrajectoryVariable
from dynamics_node.trajectory.gauss_newton import run
from dynamics_node.trajectory.trajectory_graph import Prior, Steps, TrajectoryGraph, weights_of

LOSSES = {"cauchy": "Cauchy", "geman_mcclure": "GemanMcClure"}  # same thresholds, half of our costs


def to_gtsam(steps: Steps, prior: Prior | None = None, softness: float | None = None, backend="auto"):
    """The factors of a trajectory and its prior as a gtsam.NonlinearFactorGraph, and initial values.

    Parameters
    ----------
    steps : Steps
        Values of the variables, data and weights of every step; they are copied.
    prior : Prior, optional
        Prior of the first step.
    softness : float, optional
        Standard deviation of exact factors. The default is constraints (noiseModel.Constrained), which
        linear elimination by QR supports; GTSAM's optimizers need a small number here.
    backend : str
        Backend of the factors: c, numpy, or auto.

    Returns
    -------
    graph : gtsam.NonlinearFactorGraph
        Custom factors with errors in standard deviations (exact ones in their own units) over `gtsam_key`.
    values : gtsam.Values
        Zeros: every variable is a tangent vector (tangent,) at its value in `steps`, so that
        quaternions keep unit length. `from_gtsam` applies them.

    Raises
    ------
    ImportError
        If GTSAM is not installed.
    ValueError
        For a loss that GTSAM does not have.

    Examples
    --------
    >>> graph, values = to_gtsam(steps, prior, softness=1e-6)  # doctest: +SKIP
    >>> best = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()  # doctest: +SKIP
    >>> from_gtsam(best, steps)["q"]  # doctest: +SKIP
    """
    gtsam = require_gtsam()
    graph, result, values = steps.graph, gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k in range(len(steps)):
        for variable in graph.variables:
            values.insert(gtsam_key(graph, variable.name, k), np.zeros(variable.tangent))
    if prior is not None:
        factor = _prior_factor(graph)
        result.push_back(_custom(graph, factor, steps, 0, _prior_data(graph, prior), _unit(factor), backend))
    for factor in graph.factors:
        noise = _noise(factor, softness)
        for k in range(len(steps) - bool(factor.after)):
            weights = np.ones(len(factor.rows)) if factor.exact else steps[weights_of(factor.name)][k].copy()
            if weights.any():
                data = [steps[name][k].copy() for name in factor.data]
                result.push_back(_custom(graph, factor, steps, k, data, noise, backend, np.sqrt(weights)))
    return result, values


def from_gtsam(values, steps: Steps) -> Steps:
    """A copy of `steps`, as passed to `to_gtsam`, moved by gtsam.Values."""
    moved = steps.copy()
    for variable in steps.graph.variables:
        for k, x in enumerate(moved[variable.name]):
            x[:] = variable.moved(x.copy(), values.atVector(gtsam_key(steps.graph, variable.name, k)))
    return moved


def gtsam_key(graph: TrajectoryGraph, variable: str, step: int) -> int:
    """Key of a variable at a step: a Symbol of a letter and the number of the step."""
    number = [one.name for one in graph.variables].index(variable)
    return require_gtsam().symbol(chr(ord("a") + number), step)


# --- factors ------------------------------------------------------------------------------------------------


def _custom(graph, factor, steps, k, data, noise, backend, root=1.0):
    """gtsam.CustomFactor of a TrajectoryFactor at step k; root: square roots of the weights of its rows."""
    places = [(name, k + ahead) for name, ahead, _ in factor.variables]
    keys = [gtsam_key(graph, *place) for place in places]
    start = [steps[name][step].copy() for name, step in places]
    runner = _runner(factor, graph.variables_of(factor), backend)

    def error(_, values, H):
        linear = np.empty(runner.outputs["linear"])
        run(runner, *start, *map(values.atVector, keys), *data, linear)
        linear = (linear.T * root).T
        if not np.isfinite(linear).all():
            raise SingularPosition(f"factor {factor.name!r} has no finite error at step {k}")
        if H is not None:
            ends = np.cumsum([1, *(len(values.atVector(key)) for key in keys)])
            for j, (a, b) in enumerate(pairwise(ends)):
                H[j] = linear[:, a:b]
        return linear[:, 0]

    return require_gtsam().CustomFactor(noise, keys, error)


@lru_cache(maxsize=512)
def _runner(factor: TrajectoryFactor, variables: tuple[TrajectoryVariable, ...], backend) -> Runner:
    """The arguments of the residual, a tangent step for each variable, the data -> linear (rows, 1 +
    directions): the residual after these steps, and its Jacobian by them."""
    known = {variable.name: variable for variable in variables}
    places = {argument: known[name] for name, _, argument in factor.variables}
    steps = {f"step {argument}": (variable.tangent,) for argument, variable in places.items()}
    shapes: Shapes = {argument: (variable.size,) for argument, variable in places.items()}
    shapes |= steps | factor.data

    def residual(**arrays):
        moved = {name: x.moved(arrays[name], arrays[f"step {name}"]) for name, x in places.items()}
        return {"residual": factor.residual(**moved, **{name: arrays[name] for name in factor.data})}

    value = trace(residual, shapes)
    derived = jacobian(value, ["residual"], list(steps))

    def linear(**arrays):
        by = interpret(derived, **arrays)
        blocks = [by[derivative_name("residual", name)] for name in steps]
        return {"linear": np.column_stack([interpret(value, **arrays)["residual"], *blocks])}

    return make_runner(trace(linear, shapes), backend)


@lru_cache(maxsize=64)
def _prior_factor(graph: TrajectoryGraph) -> TrajectoryFactor:
    """A x - b with data A and b; x is the tangent of the first step from data `at NAME`."""

    def residual(A, b, **arrays):
        parts = [v.difference(arrays[v.name], arrays[f"at {v.name}"]) for v in graph.variables]
        return A @ np.concatenate(parts) - b

    data: Shapes = {f"at {variable.name}": (variable.size,) for variable in graph.variables}
    data |= {"A": (len(graph.free), len(graph.column_names)), "b": (len(graph.free),)}
    now = tuple(variable.name for variable in graph.variables)
    rows = tuple(f"row {k}" for k in range(len(graph.free)))
    return TrajectoryFactor(name="prior", residual=residual, rows=rows, now=now, data=data)


def _prior_data(graph, prior):
    """Data of `_prior_factor`: half the square of A x - b equals the cost of a Prior up to a constant."""
    eigenvalues, vectors = np.linalg.eigh(prior.information)
    some = eigenvalues > 1e-14 * eigenvalues.max(initial=1e-300)
    root = np.where(some, np.sqrt(np.maximum(eigenvalues, 0.0)), 0.0)
    A = np.zeros((len(root), len(graph.column_names)))
    A[:, graph.free] = root[:, None] * vectors.T
    b = np.where(some, vectors.T @ prior.pull, 0.0) / np.where(some, root, 1.0)
    return [*(np.array(prior.values[v.name], dtype=float) for v in graph.variables), A, b]


def _noise(factor, softness):
    """Noise model of errors that are already in standard deviations."""
    models = require_gtsam().noiseModel
    if factor.exact:
        rows = len(factor.rows)
        return models.Constrained.All(rows) if softness is None else models.Isotropic.Sigma(rows, softness)
    if factor.loss is None:
        return _unit(factor)
    if factor.loss.name not in LOSSES:
        raise InputError(f"factor {factor.name!r}: GTSAM has no loss {factor.loss.name!r}")
    estimator = getattr(models.mEstimator, LOSSES[factor.loss.name]).Create(factor.loss.threshold)
    return models.Robust.Create(estimator, _unit(factor))


def _unit(factor):
    return require_gtsam().noiseModel.Unit.Create(len(factor.rows))
