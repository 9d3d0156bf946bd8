"""The most likely motion and wrenches behind readings: exact rows hold, noisy ones as well as they can.

As many rows as there are unknowns determine all of them, whatever the weights: all exact ones, and of the
noisy ones the `basis`. What the other rows read beside what then follows for them, e = G eps, with eps (m,)
the noise of all readings, of covariance R, is what there is to weigh. The least eps' R^-1 eps is that of

    eps = R G' (G R G')^-1 e,    chi-square = e' (G R G')^-1 e,

and the unknowns follow from the readings less eps: weighted least squares in as many unknowns as there are
redundant rows, and no more (Bjorck, Numerical Methods for Least Squares Problems, 1996, ch. 5). On numbers
over a batch or on symbols.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.graph.basis import choose_basis
from dynamics_node.graph.markowitz import best_plan
from dynamics_node.graph.measured import MeasuredSystem
from dynamics_node.graph.permuted import Lu, Permuted, scalar_rows
from dynamics_node.spatial import solve_definite


class EstimatePlan(NamedTuple):
    """lu: of the square system; basis, redundant: numbers of noisy rows; exact: the number of exact rows."""

    lu: Permuted
    exact: int
    basis: tuple[int, ...]
    redundant: tuple[int, ...]


class Estimate(NamedTuple):
    """values {variable: (..., dim)}; residuals eps (..., m) of all noisy rows; chi_square (...), with as many
    degrees of freedom as there are redundant rows; lu: its pivots tell how digits are lost, and so does
    leverage (...), the trace of G R G'; gain: what `spread` needs."""

    values: dict
    residuals: Any
    chi_square: Any
    lu: Lu
    leverage: Any
    gain: "Gain"


class Gain(NamedTuple):
    """responses: {basis row: {variable: value} for a unit of it}; R (m, m), R G' (..., m, p) and G R G'."""

    responses: dict[int, dict]
    R: np.ndarray
    RG: Any
    S: Any


# --- once per robot and sensors -----------------------------------------------------------------------------


def plan_estimate(system: MeasuredSystem, basis=None) -> EstimatePlan:
    """The plan of a system at several generic states. basis: numbers of noisy rows, by default those of
    `choose_basis`. Raises NoPivotError where something is left undetermined, RedundantError where exact rows
    imply each other."""
    exact, noisy = sum(f.rows for f in system.exact), sum(f.rows for f in system.noisy)
    basis = choose_basis(system) if basis is None else basis
    kept = [*range(exact), *(exact + row for row in basis)]
    lu = best_plan((*system.exact, *system.noisy), kept)
    return EstimatePlan(lu, exact, basis, tuple(row for row in range(noisy) if row not in set(basis)))


# --- at every state -----------------------------------------------------------------------------------------


def estimate(plan: EstimatePlan, system: MeasuredSystem, responses=False) -> Estimate:
    """Of a system of the structure that was planned for. responses: needed for `spread`; where rows
    are redundant they are there anyway."""
    batch = _Batch(system)
    rows, rhs = scalar_rows((*system.exact, *system.noisy), plan.lu.columns, plan.lu.pattern)
    others = [dict(rows[plan.exact + row]) for row in plan.redundant]
    lu = Lu(plan.lu, rows)
    x = lu.solve(rhs)
    noisy = rhs[plan.exact :]
    wanted = plan.basis if responses or plan.redundant else ()
    unit = {row: lu.solve(_unit(len(rhs), plan.exact + row)) for row in wanted}
    R = _joined(system.covariances)
    G = _residual_rows(plan, others, unit, len(noisy), batch)
    RG = R @ np.swapaxes(G, -1, -2)
    S = G @ RG
    eps, chi_square = batch.array([0.0] * len(noisy)), batch.array([0.0])[..., 0]
    if plan.redundant:
        e = batch.array(
            [noisy[row] - _predicted(line, x) for row, line in zip(plan.redundant, others, strict=True)]
        )
        weighed = solve_definite(S, e[..., None])
        eps = (RG @ weighed)[..., 0]
        chi_square = (e * weighed[..., 0]).sum(axis=-1)
        corrected = list(rhs)
        for row in plan.basis:
            corrected[plan.exact + row] = corrected[plan.exact + row] - eps[..., row]
        x = lu.solve(corrected)
    gain = Gain({row: _by_variable(plan.lu.columns, y, batch) for row, y in unit.items()}, R, RG, S)
    leverage = np.trace(S, axis1=-2, axis2=-1) if plan.redundant else 0.0
    return Estimate(_by_variable(plan.lu.columns, x, batch), eps, chi_square, lu, leverage, gain)


def spread(plan: EstimatePlan, gain: Gain, asked):
    """The covariance (..., k, k) of asked(values) (..., k), linear in the values of all variables."""
    P = np.stack([asked(gain.responses[row]) for row in plan.basis], axis=-1)
    basis = list(plan.basis)
    C = P @ gain.R[np.ix_(basis, basis)] @ np.swapaxes(P, -1, -2)
    if plan.redundant:
        M = P @ gain.RG[..., basis, :]
        C = C - M @ solve_definite(gain.S, np.swapaxes(M, -1, -2))
    return C


class _Batch:
    """Arrays over the states at hand, or of symbols."""

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
        found = np.zeros((*self.shape, len(entries)), self.dtype)
        for k, entry in enumerate(entries):
            found[..., k] = entry
        return found


def _unit(count, row):
    return [1.0 if k == row else 0.0 for k in range(count)]


def _predicted(line, x):
    """What a row reads where the values are x."""
    total = 0.0
    for column, entry in line.items():
        if not (isinstance(x[column], float) and x[column] == 0.0):
            total = total + entry * x[column]
    return total


def _residual_rows(plan, others, unit, count, batch):
    """G (..., p, m)."""
    G = np.zeros((*batch.shape, len(others), count), batch.dtype)
    for k, line in enumerate(others):
        for row, y in unit.items():
            G[..., k, row] = -_predicted(line, y)
        G[..., k, plan.redundant[k]] = 1.0
    return G


def _joined(covariances):
    """Block diagonal (m, m)."""
    size = sum(map(len, covariances))
    R, start = np.zeros((size, size)), 0
    for block in covariances:
        R[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return R


def _by_variable(columns, x, batch):
    """{variable: (..., dim)}"""
    found: dict = {}
    for (variable, _), value in zip(columns, x, strict=True):
        found.setdefault(variable, []).append(value)
    return {variable: batch.array(values) for variable, values in found.items()}
