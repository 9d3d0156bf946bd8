"""Trajectories independent of the library: one vector of all steps, dense linear algebra, Jacobians by differences.

Exact factors are equality constraints; a QR decomposition gives their null space. Losses are iteratively reweighted.
Only for short trajectories. Undetermined directions raise AssertionError.
"""

from dataclasses import dataclass

import numpy as np

from dynamics_node.symbolic import interpret, trace
from dynamics_node.trajectory import Prior, Steps
from dynamics_node.trajectory.factor import NEXT
from dynamics_node.trajectory.trajectory_graph import weights_of

H = 2e-3  # step of the sixth-order differences
STENCIL = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}


def solve(steps, prior, iterations=100, tolerance=1e-9) -> Steps:
    """The optimum, by Gauss-Newton from `steps`. It converges once every component of a step is below tolerance times
    the largest number."""
    steps = steps.copy()
    for _ in range(iterations):
        d = gauss_newton(steps, prior)
        move(steps, d)
        if np.abs(d).max() <= tolerance * max(1.0, _largest(steps)):
            return steps
    raise AssertionError(f"not converged in {iterations} iterations: step {np.abs(d).max():.1e}")


def cost(steps, prior):
    """Half the sum of squares over variances, with losses applied; the prior's cost relative to its minimum."""
    total = 0.5 * (_prior_rows(steps, prior)[0] ** 2).sum() - 0.5 * (_root(prior)[1] ** 2).sum()
    for factor in steps.graph.weighted:
        s = squares(steps, factor)
        total += 0.5 * (factor.loss.cost(s) if factor.loss else s).sum()
    return float(total)


def violation(steps):
    """The largest residual of the exact factors."""
    residuals = [np.abs(residual(steps, factor)).max() for factor in steps.graph.exact]
    return max(residuals, default=0.0)


def covariance(steps, prior):
    """(count, tangent, tangent) of all directions at every step, by linearization at `steps`."""
    system = linearized(steps, prior)
    _, Z = system.particular()
    R = _triangle(system.A @ Z)
    root = Z @ np.linalg.inv(R)
    own = root.reshape(len(steps), -1, root.shape[1])
    return own @ np.swapaxes(own, 1, 2)


def gauss_newton(steps, prior):
    """(count, tangent): a step."""
    system = linearized(steps, prior)
    d, Z = system.particular()
    AZ = system.A @ Z
    _triangle(AZ)  # raises for undetermined directions
    d = d - Z @ _least_squares(AZ, system.r + system.A @ d)
    return d.reshape(len(steps), -1)


def move(steps, d):
    """All variables along d (count, tangent), in place."""
    for variable in steps.graph.variables:
        x = steps[variable.name]
        x[:] = variable.moved(x.copy(), d[:, steps.graph.columns[variable.name]])


def marginalized(steps, prior) -> Prior:
    """The marginal of the first step and its prior on the second step, linearized at `steps`."""
    graph = steps.graph
    system = linearized(Steps(graph, steps.rows[:3]), prior, weighted_steps=1)
    d, basis = system.by_free_columns(graph)
    A, r = system.A @ basis, system.r + system.A @ d
    triangle = np.linalg.qr(np.column_stack([A, r]), mode="r")
    k = len(graph.free)
    R, b = triangle[k : 2 * k, k : 2 * k], triangle[k : 2 * k, -1]
    return Prior({v.name: steps[v.name][1].copy() for v in graph.variables}, R.T @ R, -R.T @ b)


# --- one linear system --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Linear:
    """Least squares of A d + r subject to E d + e = 0; d: all directions of all steps."""

    A: np.ndarray
    r: np.ndarray
    E: np.ndarray
    e: np.ndarray

    def particular(self):
        """A solution d of the constraints, and an orthonormal basis of their null space."""
        n = self.E.shape[1]
        if not len(self.e):
            return np.zeros(n), np.eye(n)
        Q, R = np.linalg.qr(self.E.T, mode="complete")
        R = _not_singular(R[: len(self.e)], "constraints")
        return -Q[:, : len(self.e)] @ np.linalg.solve(R.T, self.e), Q[:, len(self.e) :]

    def by_free_columns(self, graph):
        """The same with the free columns of all steps as coordinates."""
        width = len(graph.column_names)
        count = self.E.shape[1] // width
        free, determined = (
            [step * width + column for step in range(count) for column in columns]
            for columns in (graph.free, graph.determined)
        )
        d, basis = np.zeros(count * width), np.eye(count * width)[:, free]
        d[determined] = -np.linalg.solve(self.E[:, determined], self.e)
        basis[determined] = -np.linalg.solve(self.E[:, determined], self.E[:, free])
        return d, basis


def linearized(steps, prior, weighted_steps=None) -> Linear:
    """weighted_steps: the number of steps whose weighted factors count; None: all."""
    r, A = _prior_rows(steps, prior)
    values, rows = {False: [r], True: [np.zeros(0)]}, {False: [A], True: [A[:0]]}
    for factor in steps.graph.factors:
        r, J = residual(steps, factor), jacobian(steps, factor)
        root = np.ones_like(r) if factor.exact else np.sqrt(_weights(steps, factor))
        if factor.loss:
            root = root * np.sqrt(factor.loss.weight(squares(steps, factor)))[:, None]
        if not factor.exact:
            root[len(steps) if weighted_steps is None else weighted_steps :] = 0.0
        values[factor.exact].append((root * r).ravel())
        rows[factor.exact].append((root[..., None, None] * J).reshape(r.size, -1))
    return Linear(*(np.concatenate(parts[exact]) for exact in (False, True) for parts in (rows, values)))


def _weights(steps, factor):
    """(count, rows): zero for factors from the last step to the next one."""
    weights = steps[weights_of(factor.name)].copy()
    if factor.after:
        weights[-1] = 0.0
    return weights


def squares(steps, factor):
    """(count,): squared residuals over their variances."""
    return (_weights(steps, factor) * residual(steps, factor) ** 2).sum(axis=1)


def residual(steps, factor):
    """(count, rows)"""
    return _value(steps, factor, _arguments(steps, factor))


def jacobian(steps, factor):
    """(count, rows, count, tangent)"""
    graph, count = steps.graph, len(steps)
    J = np.zeros((count, len(factor.rows), count, len(graph.column_names)))
    variables = {variable.name: variable for variable in graph.variables}
    given, own = _arguments(steps, factor), np.arange(count)
    for name, ahead, argument in factor.variables:
        variable, derivative = variables[name], 0.0
        for offset, share in STENCIL.items():
            for sign in (1, -1):
                moved = _along(variable, given[argument], sign * offset * H)
                value = _value(steps, factor, given | {argument: moved})
                derivative = derivative + sign * share / H * value
        last = count - ahead
        J[own[:last], :, own[:last] + ahead, graph.columns[name]] += np.moveaxis(derivative, 0, -1)[:last]
    return J


def _along(variable, x, h):
    """(tangent, count, size): x moved by h along every direction."""
    k = variable.tangent
    steps = np.broadcast_to(h * np.eye(k)[:, None], (k, len(x), k))
    return variable.moved(np.broadcast_to(x, (k, *x.shape)), steps)


def _arguments(steps, factor):
    """{argument: (count, ...)}; the successor of the last step is itself."""
    following = np.minimum(np.arange(len(steps)) + 1, len(steps) - 1)
    now = {name: steps[name] for name in (*factor.now, *factor.data)}
    return now | {name + NEXT: steps[name][following] for name in factor.after}


def _value(steps, factor, arguments):
    sizes = {variable.name: (variable.size,) for variable in steps.graph.variables}
    shapes = {argument: sizes[name] for name, _, argument in factor.variables} | factor.data
    key = (factor, tuple(sizes.items()))
    if key not in _PROGRAMS:
        _PROGRAMS[key] = trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes)
    return interpret(_PROGRAMS[key], **arguments)["residual"]


_PROGRAMS: dict = {}


def _prior_rows(steps, prior):
    """r and A of the first step's prior."""
    graph, width = steps.graph, len(steps.graph.column_names)
    r, J = np.zeros(width), np.zeros((width, len(steps), width))
    for variable in graph.variables:
        x, values, own = steps[variable.name][:1], prior.values[variable.name], graph.columns[variable.name]
        r[own] = variable.difference(x[0], values)
        for offset, share in STENCIL.items():
            for sign in (1, -1):
                moved = _along(variable, x, sign * offset * H)[:, 0]
                difference = variable.difference(moved, np.broadcast_to(values, moved.shape))
                J[own, 0, own] += sign * share / H * difference.T
    root, b = _root(prior)
    return root @ r[graph.free] - b, root @ J[graph.free].reshape(len(graph.free), -1)


def _root(prior):
    """A, b: the prior's cost is half of |A error - b|^2 - |b|^2."""
    eigenvalues, vectors = np.linalg.eigh(prior.information)
    known = eigenvalues > 1e-14 * max(eigenvalues.max(initial=0.0), 1e-300)
    root = np.sqrt(np.where(known, eigenvalues, 0.0))
    b = np.where(known, vectors.T @ prior.pull, 0.0) / np.where(known, root, 1.0)
    return root[:, None] * vectors.T, b


def _least_squares(A, r):
    Q, R = np.linalg.qr(A)
    return np.linalg.solve(R, Q.T @ r)


def _triangle(A):
    return _not_singular(np.linalg.qr(A, mode="r"), "free directions")


def _not_singular(R, what):
    """R; raises if a diagonal entry is small relative to its column."""
    assert R.shape[0] == R.shape[1], f"{what}: {R.shape[1]}, but {R.shape[0]} rows"
    size = np.abs(np.diag(R)) / np.maximum(np.linalg.norm(R, axis=0), 1e-300)
    assert len(size) == 0 or size.min() > 1e-12, f"{what} are not all determined: {np.argmin(size)}"
    return R


def _largest(steps):
    return max(np.abs(steps[variable.name]).max() for variable in steps.graph.variables)
