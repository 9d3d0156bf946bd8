"""Elimination: FactorGraph and Ordering -> BayesNet, variable by variable (block LU).

`plan_elimination` decides once per robot, at generic states: pivot rows, and which blocks vanish.
`eliminate` follows the plan at any states, over floats or symbols alike.

`eliminate_watched` also returns how weak the pivots are at a state. A pivot p of a row p x + sum_k a_k y_k =
b is weak if it is small compared to the rest of its row: x then follows from much larger values, and digits
are lost. Without weak pivots, the elimination is as accurate as one that chooses its pivots at every state
(Higham, Accuracy and Stability of Numerical Algorithms, sec. 9.3: the growth of elements counts). Losses of
successive weak pivots multiply.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SingularPivotError
from dynamics_node.graph.factor_graph import BayesNet, Conditional, FactorGraph, require_posed
from dynamics_node.graph.factors import ACCELERATION, CONTACT_FORCE, WRENCH, Variable, is_natural
from dynamics_node.graph.pivot import Candidate, Pivot, choose_pivot
from dynamics_node.symbolic import matvec, solve

VANISHES = 1e-11  # relative size of a block that counts as identically zero
__all__ = ["Plan", "SingularPivotError", "Step", "eliminate", "eliminate_some", "plan_elimination"]
TOO_WEAK = 1e24  # weakness of a pivot that is only rounding


class Step(NamedTuple):
    """One elimination step: the variable, its pivot rows, the factors it touches, its parents in the Bayes
    net, and the variables left in each touched factor."""

    variable: Variable
    pivot: Pivot
    touched: tuple[int, ...]
    parents: tuple[Variable, ...]
    remaining: tuple[tuple[Variable, ...], ...]


class Plan(NamedTuple):
    """An Ordering made executable for one robot."""

    steps: tuple[Step, ...]

    @property
    def safe(self):
        """True if no pivot can become weak at any state."""
        return all(step.pivot.safe for step in self.steps)

    @property
    def size(self):
        """Scalar entries of the BayesNet."""
        return sum(s.variable.dim * (1 + sum(y.dim for y in s.parents)) for s in self.steps)


def plan_elimination(graph: FactorGraph, ordering) -> Plan:
    """Plan from the graph at several generic states (one leading axis).

    Raises ValueError if the ordering does not name every variable once, IllPosedError if the graph does not
    determine its variables, SingularPivotError (naming the variable) if the ordering cannot be followed.
    """
    _check_complete(graph, ordering)
    if sum(factor.rows for factor in graph.factors) != sum(x.dim for x in graph.variables):
        require_posed(graph)
    try:
        return _planned(graph, ordering)
    except SingularPivotError:
        require_posed(graph)
        raise


def _planned(graph, ordering):
    factors = dict(enumerate(graph.factors))
    states = graph.factors[0].rhs.shape[:-1]
    steps, symmetric = [], True
    bodies = {factor.body for factor in graph.factors if factor.kind == "wrench"}
    for variable in ordering:
        touched = tuple(number for number, factor in factors.items() if variable in factor.blocks)
        candidates = {n: _candidate(factors[n], variable, states) for n in touched}
        definite = symmetric and _carries_all([factors[n] for n in touched], variable, bodies)
        pivot = choose_pivot(variable, candidates, definite)
        symmetric &= all(is_natural(variable, factors[number]) for number, _ in pivot.rows)
        conditional, rest = _solve_and_substitute(factors, touched, variable, pivot)
        rest = {n: factor for n, factor in rest.items() if factor.rows}
        parents = _non_zero(conditional.R)
        remaining = {n: _non_zero(factor.blocks) for n, factor in rest.items()}
        steps.append(Step(variable, pivot, touched, parents, tuple(remaining.get(n, ()) for n in touched)))
        factors = _advance(factors, touched, rest, remaining)
    return Plan(tuple(steps))


def _carries_all(factors, variable, bodies):
    """Whether the inertia at a joint is complete: neither motion nor wrench of a body in its subtree is
    unknown. It is then definite, however inertias are grouped."""
    own = [factor for factor in factors if is_natural(variable, factor)]
    rest = {y for factor in own for y in factor.blocks if y.kind in (ACCELERATION, WRENCH)}
    return not any(y.body > variable.body and y.body in bodies for y in rest)


def eliminate(graph: FactorGraph, plan: Plan) -> BayesNet:
    """The BayesNet of a graph with the structure of the planned one."""
    return eliminate_some(graph, plan, len(plan.steps))[0]


def eliminate_some(graph: FactorGraph, plan: Plan, count: int) -> tuple[BayesNet, FactorGraph]:
    """The conditionals of the first `count` variables, and the remaining graph of the others."""
    factors = dict(enumerate(graph.factors))
    conditionals = []
    for step in plan.steps[:count]:
        conditional, factors = follow(factors, step)
        conditionals.append(conditional)
    return BayesNet(tuple(conditionals)), FactorGraph(tuple(factors.values()))


def follow(factors, step: Step):
    """The conditional of a step, and the factors after it; factors: {number: factor} before it."""
    variable, pivot, touched, parents, remaining = step
    conditional, rest = _solve_and_substitute(factors, touched, variable, pivot)
    R = {y: conditional.R[y] for y in parents}
    following = _advance(factors, touched, rest, dict(zip(touched, remaining, strict=True)))
    return Conditional(variable, R, conditional.d), following


def _candidate(factor, variable, states):
    """The factor as a source of pivots: entries that are only rounding relative to their row are zero."""
    row_size = np.max([_row_size(block) for block in factor.blocks.values()], axis=0)
    block = np.broadcast_to(factor.blocks[variable], (*states, factor.rows, variable.dim))
    block = np.where(np.abs(block) > VANISHES * row_size[:, None], block, 0.0)
    same_numbers = (factor.kind == "contact") == (variable.kind == CONTACT_FORCE)  # of contacts, or of bodies
    return Candidate(block, same_numbers and factor.body == variable.body)


def _row_size(block):
    return np.abs(block).max(axis=(*range(block.ndim - 2), -1))


def _check_complete(graph, ordering):
    wanted, listed = set(graph.variables), list(ordering)
    if len(listed) != len(set(listed)):
        twice = sorted({str(x) for x in listed if listed.count(x) > 1})
        raise InputError(f"the ordering names {', '.join(twice)} twice")
    for names, what in ((wanted - set(listed), "leaves out"), (set(listed) - wanted, "names unknown")):
        if names:
            raise InputError(f"the ordering {what} {', '.join(sorted(map(str, names)))}")


def _solve_and_substitute(factors, touched, variable, pivot):
    """The conditional of a variable, and the remaining factors that touched it."""
    conditional = _conditional(factors, variable, pivot)
    taken: dict[int, list[int]] = {n: [] for n in touched}
    for number, row in pivot.rows:
        taken[number].append(row)
    rest = {}
    for number in touched:
        factor = factors[number]
        left = [row for row in range(factor.rows) if row not in taken[number]]
        if left:
            rest[number] = _substituted(chosen_rows(factor, left), conditional)
    return conditional, rest


def chosen_rows(factor, rows):
    """The factor with some of its rows."""
    if rows == list(range(factor.rows)):
        return factor
    blocks = {y: block[..., rows, :] for y, block in factor.blocks.items()}
    return replace(factor, blocks=blocks, rhs=factor.rhs[..., rows])


def _conditional(factors, variable, pivot):
    """Solve the pivot rows P x + sum P_y y = b for x."""
    if pivot.sign:
        blocks, rhs = _pivot_rows(factors, pivot)
        rest = {y: pivot.sign * B for y, B in blocks.items() if y != variable}
        return Conditional(variable, rest, pivot.sign * rhs)
    P, joined, others = pivot_system(factors, variable, pivot)
    solution = np.empty_like(joined)
    solution[..., list(pivot.columns), :] = solve(P, joined)
    *R, d = np.split(solution, np.cumsum([y.dim for y in others]), axis=-1)
    return Conditional(variable, dict(zip(others, R, strict=True)), d[..., 0])


def pivot_system(factors, variable, pivot):
    """P (..., dim, dim) in pivot order, the blocks of the other variables with the right-hand side as last
    column, side by side, and those variables."""
    blocks, rhs = _pivot_rows(factors, pivot)
    P = blocks.pop(variable)
    batch = np.broadcast_shapes(rhs.shape[:-1], *(B.shape[:-2] for B in (P, *blocks.values())))
    columns = [np.broadcast_to(B, (*batch, *B.shape[-2:])) for B in (*blocks.values(), rhs[..., None])]
    ordered = np.broadcast_to(P, (*batch, *P.shape[-2:]))[..., list(pivot.columns)]
    return ordered, np.concatenate(columns, axis=-1), tuple(blocks)


def _pivot_rows(factors, pivot):
    numbers = list(dict.fromkeys(number for number, _ in pivot.rows))
    if len(numbers) == 1:
        chosen = chosen_rows(factors[numbers[0]], [row for _, row in pivot.rows])
        return dict(chosen.blocks), chosen.rhs
    variables = dict.fromkeys(y for n in numbers for y in factors[n].blocks)
    batch = np.broadcast_shapes(
        *(factors[n].rhs.shape[:-1] for n in numbers),
        *(B.shape[:-2] for n in numbers for B in factors[n].blocks.values()),
    )
    blocks = {y: _stacked([_row_of(factors[n], y, row) for n, row in pivot.rows], batch) for y in variables}
    rhs = _stacked([factors[n].rhs[..., row, None] for n, row in pivot.rows], batch)[..., 0]
    return blocks, rhs


def _row_of(factor, variable, row):
    if variable in factor.blocks:
        return factor.blocks[variable][..., row, :]
    return np.zeros(variable.dim)


def _stacked(rows, batch):
    return np.stack([np.broadcast_to(row, (*batch, row.shape[-1])) for row in rows], axis=-2)


def _substituted(factor, conditional):
    """Replace the conditional's variable in a factor: A x + sum B y = r, x = d - sum R y."""
    blocks = dict(factor.blocks)
    A = blocks.pop(conditional.variable)
    for y, R in conditional.R.items():
        change = A @ R
        blocks[y] = blocks[y] - change if y in blocks else -change
    return replace(factor, blocks=blocks, rhs=factor.rhs - matvec(A, conditional.d))


def _non_zero(blocks):
    sizes = {y: np.abs(block).max() for y, block in blocks.items()}
    least = VANISHES * max(sizes.values(), default=0.0)
    return tuple(y for y, size in sizes.items() if size > least)


def _advance(factors, touched, rest, remaining):
    """The factors after a step; one without rows or variables leaves the graph."""
    factors = {number: factor for number, factor in factors.items() if number not in touched}
    for number, factor in rest.items():
        if remaining[number]:
            factors[number] = replace(factor, blocks={y: factor.blocks[y] for y in remaining[number]})
    return factors


def eliminate_watched(graph: FactorGraph, plan: Plan) -> tuple[BayesNet, dict[Variable, np.ndarray]]:
    """The result of `eliminate`, and for every variable whose pivot may be weak its weakness (...): the
    squares of |rest of the row| / |pivot|, summed over the rows of its pivot."""
    factors = dict(enumerate(graph.factors))
    conditionals, weakness = [], {}
    for step in plan.steps:
        if not step.pivot.safe:
            weakness[step.variable] = _weakness(*pivot_system(factors, step.variable, step.pivot))
        conditional, factors = follow(factors, step)
        conditionals.append(conditional)
    return BayesNet(tuple(conditionals)), weakness


def weakest_pivot(graph: FactorGraph, plan: Plan) -> Variable | None:
    """The first variable whose pivot vanishes at one of the states of a graph, since later ones are rounding;
    otherwise the one with the weakest pivot. None if all are safe."""
    factors = dict(enumerate(graph.factors))
    weakest, worst = None, -1.0
    for step in plan.steps:
        with np.errstate(all="ignore"):
            if not step.pivot.safe:
                weakness = np.max(_weakness(*pivot_system(factors, step.variable, step.pivot)))
                if not weakness <= TOO_WEAK:
                    return step.variable
                if weakness > worst:
                    weakest, worst = step.variable, weakness
            try:
                _, factors = follow(factors, step)
            except np.linalg.LinAlgError:
                return step.variable
    return weakest


def growth(weakness, usual):
    """The squared loss of digits (...): the product over all pivots of their weakness relative to the usual
    one. weakness, usual: {variable: (...)} of `eliminate_watched`."""
    total = 1.0
    for x, value in weakness.items():
        total = total * (1.0 + value * (1.0 / usual[x]))
    return total


def _weakness(P, joined, others):
    """The weakness of the pivots of P (..., n, n) in order; joined, others: see `pivot_system`."""
    rows, total = np.concatenate([P, joined], axis=-1), 0.0
    for k in range(P.shape[-1]):
        rest, inverse = rows[..., k, k + 1 : -1], 1.0 / rows[..., k, k]
        total = total + (rest * rest).sum(axis=-1) * (inverse * inverse)
        below = rows[..., k + 1 :, k : k + 1] / rows[..., k : k + 1, k : k + 1]
        changed = rows[..., k + 1 :, :] - below * rows[..., k : k + 1, :]
        rows = np.concatenate([rows[..., : k + 1, :], changed], axis=-2)
    return total
