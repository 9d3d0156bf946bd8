"""The most likely motion and wrenches for given readings: exact rows hold, noisy ones are weighted.

As many rows as unknowns determine all of them, with any weights: all exact ones, and of the noisy ones
the basis (`choose_basis`). The other rows are redundant. Their readings minus the values that then follow for
them, e = G eps, depend on the noise eps (m,) of all readings, of covariance R. The least eps' R^-1 eps is
that of

    eps = R G' (G R G')^-1 e,    chi-square = e' (G R G')^-1 e,

and the unknowns follow from the readings minus eps: weighted least squares in as many unknowns as there are
redundant rows (Bjorck, Numerical Methods for Least Squares Problems, 1996, ch. 5). If more rows are redundant
than are in the basis, the normal equations are those of the basis. With T (m, b), the response of all rows to
unit readings of the basis, and e, the readings minus the values that follow from the basis (0 for the basis
itself),

    eps = e - T (T' R^-1 T)^-1 T' R^-1 e,    chi-square = eps' R^-1 eps,

whose size does not grow with the number of readings. For numbers over a batch or for symbols.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.graph.factor_graph import dense_system
from dynamics_node.graph.factors import (
    ACCELERATION,
    CONTACT_FORCE,
    JOINT_ACCELERATION,
    WRENCH,
    LinearFactor,
)
from dynamics_node.graph.permuted import Lu, Permuted, scalar_columns, scalar_rows
from dynamics_node.graph.pivot_search import NoPivotError, best_plan
from dynamics_node.graph.sensor_system import SensorSystem
from dynamics_node.symbolic import pivoted, solve_definite, symmetric

DEPENDENT = 1e-9  # relative remainder of a row that counts as zero
# A reading of a variable that others follow from is preferred to one that needs a solve, unless it is this
# much less precise.
PREFERRED = {JOINT_ACCELERATION: 30.0, ACCELERATION: 30.0, CONTACT_FORCE: 30.0, WRENCH: 10.0}


class RedundantError(InputError):
    """Exact rows that imply each other."""


def choose_basis(system: SensorSystem) -> tuple[int, ...]:
    """Numbers of the noisy rows, at a generic state (the first of the system), that best determine the
    directions left open by exact ones. Raises NoPivotError if none do, RedundantError if exact rows imply
    each other."""
    noisy = sum(factor.rows for factor in system.noisy)
    if noisy + sum(f.rows for f in system.exact) == sum(x.dim for x in system.variables):
        return tuple(range(noisy))
    from scipy.linalg import qr  # takes 0.2 s; only redundant sensors need it

    columns = scalar_columns(system.variables)
    D, Y = (dense_system(factors, system.variables)[0] for factors in (system.exact, system.noisy))
    D = D / np.maximum(np.abs(D).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    Q, R, _ = qr(D.T, pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    if rank < len(D):
        raise RedundantError("exact equations of sensors and dynamics imply each other")
    missing = len(columns) - rank
    std = np.sqrt(np.concatenate([np.diag(R) for R in system.covariances]))
    weight = np.array([_preference(factor) for factor in system.noisy for _ in range(factor.rows)])
    open_rows = (Y @ Q[:, rank:]) * (weight / std)[:, None]
    order, sizes = pivoted(open_rows)
    if len(sizes) < missing or not np.all(sizes > DEPENDENT * sizes.max(initial=0.0)):
        raise NoPivotError(_undetermined(np.vstack([D, Y]), columns))
    return tuple(sorted(order[:missing]))


def _preference(factor: LinearFactor):
    return min((PREFERRED.get(x.kind, 1.0) for x in factor.blocks), default=1.0)


def _undetermined(A, columns):
    _, sizes, V = np.linalg.svd(A / np.maximum(np.abs(A).max(axis=1, keepdims=True), 1e-300))
    rank = int((sizes > DEPENDENT * sizes.max(initial=0.0)).sum())
    free = np.abs(V[rank:]).max(axis=0, initial=0.0) > DEPENDENT
    return [column for column, is_free in zip(columns, free, strict=True) if is_free]


class EstimatePlan(NamedTuple):
    """lu: of the square system; basis, redundant: numbers of noisy rows; exact: the number of exact rows."""

    lu: Permuted
    exact: int
    basis: tuple[int, ...]
    redundant: tuple[int, ...]


class SystemSolution(NamedTuple):
    """values {variable: (..., dim)}; residuals eps (..., m) of all noisy rows; chi_square (...), with as many
    degrees of freedom as redundant rows. lu: its pivots show the loss of digits, and so does leverage (...),
    the trace of G R G'; gain: for `spread`."""

    values: dict
    residuals: Any
    chi_square: Any
    lu: Lu
    leverage: Any
    gain: "Gain"


class Gain(NamedTuple):
    """responses: {basis row: {variable: value} for a unit of it}; R (b, b): covariance of the basis, as read
    or as estimated. With M (..., b, p) and S (..., p, p) the covariance is R - M S^-1 M'."""

    responses: dict[int, dict]
    R: np.ndarray
    M: Any
    S: Any


# --- once per robot and sensors -----------------------------------------------------------------------------


def plan_estimate(system: SensorSystem, basis=None) -> EstimatePlan:
    """The plan of a system at several generic states. basis: numbers of noisy rows, by default those of
    `choose_basis`. Raises NoPivotError if the rows do not determine all variables, RedundantError if exact
    rows imply each other."""
    exact, noisy = sum(f.rows for f in system.exact), sum(f.rows for f in system.noisy)
    basis = choose_basis(system) if basis is None else basis
    selected = [*range(exact), *(exact + row for row in basis)]
    lu = best_plan((*system.exact, *system.noisy), selected)
    return EstimatePlan(lu, exact, basis, tuple(row for row in range(noisy) if row not in set(basis)))


# --- at every state -----------------------------------------------------------------------------------------


def estimate(plan: EstimatePlan, system: SensorSystem, responses=False) -> SystemSolution:
    """The solution of a system with the planned structure. responses: needed for `spread`; always present
    with redundant rows."""
    batch = _Batch(system)
    rows, rhs = scalar_rows((*system.exact, *system.noisy), plan.lu.columns, plan.lu.pattern)
    others = [dict(rows[plan.exact + row]) for row in plan.redundant]
    lu = Lu(plan.lu, rows)
    x = lu.solve(rhs)
    noisy = rhs[plan.exact :]
    wanted = plan.basis if responses or plan.redundant else ()
    unit = {row: lu.solve(_unit(len(rhs), plan.exact + row)) for row in wanted}
    e = [noisy[row] - _predicted(line, x) for row, line in zip(plan.redundant, others, strict=True)]
    T = batch.array([_predicted(line, unit[row]) for line in others for row in plan.basis])
    T = T.reshape(*batch.shape, len(others), len(plan.basis))
    weighed = _weighed(plan, _Noise(system.covariances), T, batch.array(e))
    if plan.redundant:
        corrected = list(rhs)
        for row in plan.basis:
            corrected[plan.exact + row] = corrected[plan.exact + row] - weighed.eps[..., row]
        x = lu.solve(corrected)
    units = {row: _by_variable(plan.lu.columns, y, batch) for row, y in unit.items()}
    gain = Gain(units, weighed.R, weighed.M, weighed.S)
    values = _by_variable(plan.lu.columns, x, batch)
    return SystemSolution(values, weighed.eps, weighed.chi_square, lu, weighed.leverage, gain)


def spread(plan: EstimatePlan, gain: Gain, function):
    """The covariance (..., k, k) of function(values) (..., k), linear in the values of all variables."""
    P = np.stack([function(gain.responses[row]) for row in plan.basis], axis=-1)
    C = P @ gain.R @ np.swapaxes(P, -1, -2)
    if gain.S is not None:
        M = P @ gain.M
        C = C - M @ solve_definite(gain.S, np.swapaxes(M, -1, -2))
    return C


# --- weights ------------------------------------------------------------------------------------------------


class _Noise:
    """The covariance R (m, m) of all readings, with one block for each sensor."""

    def __init__(self, blocks):
        self.blocks = blocks
        ends = np.cumsum([0, *map(len, blocks)]).tolist()
        self.places = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.size = ends[-1]

    def times(self, x, blocks=None):
        """R x, of x (..., m, k)."""
        pairs = zip(self.blocks if blocks is None else blocks, self.places, strict=True)
        return np.concatenate([x[..., :0, :], *(block @ x[..., at, :] for block, at in pairs)], axis=-2)

    def inverse_times(self, x):
        """R^-1 x, with the same order of operations on every machine."""
        inverses = [
            np.diag(1.0 / np.diag(block))
            if np.array_equal(block, np.diag(np.diag(block)))
            else solve_definite(block.astype(object), np.eye(len(block))).astype(float)
            for block in self.blocks
        ]
        return self.times(x, inverses)

    def variances(self, rows):
        """The variances of some readings."""
        return np.concatenate([np.diag(block) for block in self.blocks])[rows].tolist()

    def columns(self, rows):
        """R (m, len(rows)), some of its columns."""
        chosen = np.zeros((self.size, len(rows)))
        chosen[rows, range(len(rows))] = 1.0
        return self.times(chosen)


class _Weighed(NamedTuple):
    """Fields as in SystemSolution and Gain."""

    eps: Any
    chi_square: Any
    leverage: Any
    R: Any
    M: Any
    S: Any


def _weighed(plan, noise: _Noise, T, e) -> _Weighed:
    """T (..., p, b): response of redundant rows to unit readings of the basis; e (..., p)."""
    basis, redundant = list(plan.basis), list(plan.redundant)
    R = noise.columns(basis)
    of_basis, across = R[basis], R[redundant]  # of the basis, and between redundant rows and the basis
    if not redundant:
        nothing = np.zeros((*T.shape[:-2], noise.size), T.dtype)
        return _Weighed(nothing, nothing.sum(axis=-1), 0.0, of_basis, None, None)
    if len(redundant) <= len(basis):
        return _by_redundant_rows(basis, redundant, noise, T, e, of_basis)
    leverage = sum(noise.variances(redundant)) + (T * (T @ of_basis - 2.0 * across)).sum(axis=(-1, -2))
    return _by_basis(basis, redundant, noise, T, e, leverage)


def _by_redundant_rows(basis, redundant, noise, T, e, of_basis):
    RG = np.zeros((*T.shape[:-2], noise.size, len(redundant)), T.dtype)
    RG[...] = noise.columns(redundant)
    RG = RG - noise.columns(basis) @ np.swapaxes(T, -1, -2)
    S = RG[..., redundant, :] - T @ RG[..., basis, :]
    weighed = solve_definite(S, e[..., None])
    chi_square = (e * weighed[..., 0]).sum(axis=-1)
    leverage = np.trace(S, axis1=-2, axis2=-1)
    return _Weighed((RG @ weighed)[..., 0], chi_square, leverage, of_basis, RG[..., basis, :], S)


def _by_basis(basis, redundant, noise, T, e, leverage):
    b, shape = len(basis), T.shape[:-2]
    every = np.zeros((*shape, noise.size, b + 1), T.dtype)  # T, e of all rows
    every[..., basis, :b] = np.eye(b)
    every[..., redundant, :b], every[..., redundant, b] = T, e
    products = np.swapaxes(every, -1, -2) @ noise.inverse_times(every)
    N = symmetric(products[..., :b, :b])
    solution = solve_definite(N, np.concatenate([products[..., :b, b:], np.eye(b) + 0.0 * N], axis=-1))
    eps = every[..., b] - (every[..., :b] @ solution[..., :1])[..., 0]
    chi_square = (eps * noise.inverse_times(eps[..., None])[..., 0]).sum(axis=-1)
    return _Weighed(eps, chi_square, leverage, symmetric(solution[..., 1:]), None, None)


class _Batch:
    """Arrays over the present states, or of symbols."""

    def __init__(self, system):
        arrays = [
            a
            for f in (*system.exact, *system.noisy)
            for a in (f.rhs[..., 0], *(B[..., 0, 0] for B in f.blocks.values()))
        ]
        self.shape = np.broadcast_shapes(*(a.shape for a in arrays))
        self.dtype = np.result_type(*(a.dtype for a in arrays))

    def array(self, entries):
        """(..., n) of n numbers, arrays or symbols."""
        stacked = np.zeros((*self.shape, len(entries)), self.dtype)
        for k, entry in enumerate(entries):
            stacked[..., k] = entry
        return stacked


def _unit(count, row):
    return [1.0 if k == row else 0.0 for k in range(count)]


def _predicted(line, x):
    """The reading of a row for values x."""
    total = 0.0
    for column, entry in line.items():
        if not (isinstance(x[column], float) and x[column] == 0.0):
            total = total + entry * x[column]
    return total


def _by_variable(columns, x, batch):
    """{variable: (..., dim)}"""
    by_variable: dict = {}
    for (variable, _), value in zip(columns, x, strict=True):
        by_variable.setdefault(variable, []).append(value)
    return {variable: batch.array(values) for variable, values in by_variable.items()}
