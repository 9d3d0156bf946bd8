"""The factor graph of a trajectory: the same variables and factors at every step, with different numbers.

Directions of a step and errors of its links have elimination orders of their own. Blocks are dense, but right
sides are not: a right side is skipped until the elimination reaches its first nonzero row, and is full from
then on (George and Liu 1981, Computer Solution of Large Sparse Positive Definite Systems, sec. 6.2). Rows
that fill few right sides therefore come first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot import Shapes
from dynamics_node.trajectory.factor import TrajectoryFactor, TrajectoryVariable, factor_program

CHANGE, LINKED, DAMPING = "change", "linked", "damping"  # entries of a row that solvers write


@dataclass(frozen=True, eq=False)
class TrajectoryGraph:
    """Variables and factors of every step; absent factors of a step have zero weight.

    The directions of all variables, in order, are columns: those that exact factors determine, and the free
    ones. Raises ValueError for factors with unknown names.
    """

    variables: tuple[TrajectoryVariable, ...]
    factors: tuple[TrajectoryFactor, ...]

    def __post_init__(self):
        _require_unique("variable", [variable.name for variable in self.variables])
        _require_unique("factor", [factor.name for factor in self.factors])
        for factor in self.factors:
            for name in (*factor.now, *factor.after):
                if name not in self.columns:
                    raise InputError(f"factor {factor.name!r}: there is no variable {name!r}")
        _require_unique("determined", [self.column_names[k] for k in self.determined])
        assert self.data  # raises if shapes differ

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Slice of the directions of every variable."""
        ends = np.cumsum([variable.tangent for variable in self.variables]).tolist()
        return {v.name: slice(end - v.tangent, end) for v, end in zip(self.variables, ends, strict=True)}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """'variable direction' of every column."""
        return tuple(f"{v.name} {name}" for v in self.variables for name in v.names)

    @cached_property
    def determined(self) -> list[int]:
        """Columns that the rows of the exact factors determine, in the order of these rows."""
        return [self.columns[name].start + k for factor in self.exact for name, k in factor.determines]

    @cached_property
    def free(self) -> list[int]:
        """The other columns."""
        taken = set(self.determined)
        return [k for k in range(len(self.column_names)) if k not in taken]

    @cached_property
    def order(self) -> list[int]:
        """The free columns in elimination order, last one first."""
        return [self.free[k] for k in last_first(occupied_links(self)[0].T)]

    @cached_property
    def link_order(self) -> list[int]:
        """The rows of the factors linking to the next step, in elimination order."""
        return last_first(occupied_links(self)[1])

    def variables_of(self, factor: TrajectoryFactor) -> tuple[TrajectoryVariable, ...]:
        """Variables of a factor."""
        return tuple(v for v in self.variables if v.name in (*factor.now, *factor.after))

    @property
    def exact(self):
        return [factor for factor in self.factors if factor.exact]

    @property
    def weighted(self):
        return [factor for factor in self.factors if not factor.exact]

    @cached_property
    def data(self) -> Shapes:
        """{name: shape} of the data of every step, including the time to the next one, dt (1,)."""
        shapes: Shapes = {"dt": (1,)}
        for factor in self.factors:
            for name, shape in factor.data.items():
                if shapes.setdefault(name, shape) != shape:
                    raise InputError(f"data {name!r} of factor {factor.name!r}: {shape}, not {shapes[name]}")
        return shapes

    @cached_property
    def row(self) -> Shapes:
        """{name: shape} of all numbers of a step, in order: variables; their last squared change; data;
        weights (inverse variances of the rows) of factors; 1 if a next step follows, else 0; damping."""
        shapes: Shapes = {variable.name: (variable.size,) for variable in self.variables}
        shapes |= {CHANGE: (1,)} | self.data
        shapes |= {weights_of(factor.name): (len(factor.rows),) for factor in self.weighted}
        return shapes | {LINKED: (1,), DAMPING: (1,)}

    @property
    def ahead(self) -> Shapes:
        """The first entries of `row`, which the previous step reads."""
        names = [*(variable.name for variable in self.variables), CHANGE, *self.data]
        return {name: self.row[name] for name in names}

    @property
    def stored(self) -> int:
        """Number of scalars of all variables."""
        return sum(variable.size for variable in self.variables)

    def steps(self, count) -> "Steps":
        """Neutral Steps without weights."""
        steps = Steps(self, np.zeros((count + 1, sum(int(np.prod(s)) for s in self.row.values()))))
        for variable in self.variables:
            steps[variable.name][:] = variable.neutral
        return steps


def weights_of(factor: str) -> str:
    """Name of a factor's weights in a row."""
    return f"weights {factor}"


@dataclass(frozen=True, eq=False)
class Steps:
    """The numbers of all steps of a trajectory: steps['q'] is a writable view (count, *shape) of a variable
    or of data. rows (count + 1, width): the extra row is read by the last step but not used."""

    graph: TrajectoryGraph
    rows: np.ndarray

    def __len__(self):
        return len(self.rows) - 1

    def __getitem__(self, name) -> np.ndarray:
        return self.views[name]

    @cached_property
    def views(self) -> dict[str, np.ndarray]:
        """{name: (count, *shape)} of the entries of a row."""
        views, start = {}, 0
        for name, shape in self.graph.row.items():
            size = int(np.prod(shape))
            views[name] = self.rows[: len(self), start : start + size].reshape(len(self), *shape)
            start += size
        return views

    def weigh(self, factor, variance):
        """Set the variance of a factor, (rows,) or (count, rows), infinite if absent. Raises ValueError
        unless positive, KeyError for an exact factor."""
        variance = np.asarray(variance, dtype=float)
        if not (variance > 0).all():
            raise InputError(f"variances of factor {factor!r} must be positive, not {variance.min()}")
        self[weights_of(factor)][:] = 1.0 / variance

    def copy(self) -> "Steps":
        return Steps(self.graph, self.rows.copy())


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of a first step: a quadratic in the directions x (free,) from values {variable: (size,)} of all
    variables, with its minimum at information (free, free) x = pull (free,)."""

    values: dict[str, np.ndarray]
    information: np.ndarray
    pull: np.ndarray

    def cost(self, graph: TrajectoryGraph, steps: Steps):
        """Half its squared error, minus that at the values."""
        error = self.error(graph, steps)
        return float(error @ (0.5 * (self.information @ error) - self.pull))

    def stored(self, graph: TrajectoryGraph):
        """The values of all variables, concatenated."""
        return np.concatenate([self.values[variable.name] for variable in graph.variables])

    def error(self, graph: TrajectoryGraph, steps: Steps):
        """Difference (free,) of the first step from the values."""
        parts = [v.difference(steps[v.name][0], self.values[v.name]) for v in graph.variables]
        return np.concatenate(parts)[graph.free]


def prior(graph: TrajectoryGraph, values, variances) -> Prior:
    """A Prior with `variances` {variable: (tangent,) or scalar}; for other variables, `values` are only
    initial values."""
    diagonal = np.zeros(len(graph.column_names))
    for name, variance in variances.items():
        diagonal[graph.columns[name]] = 1.0 / np.asarray(variance, dtype=float)
    complete = {v.name: np.array(values.get(v.name, v.neutral), dtype=float) for v in graph.variables}
    return Prior(complete, np.diag(diagonal[graph.free]), np.zeros(len(graph.free)))


def _require_unique(kind, names: Iterable[str]):
    names = list(names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{kind} twice: {', '.join(repeated)}")


# --- orders of elimination ----------------------------------------------------------------------------------


def last_first(occupied) -> list[int]:
    """Order of the rows of right sides (rows, columns), bool, eliminated from the end."""
    left, full, order = list(range(len(occupied))), np.zeros(occupied.shape[1], dtype=bool), []
    while left:
        chosen = min(reversed(left), key=lambda row: np.count_nonzero(occupied[row] & ~full))
        full |= occupied[chosen]
        left.remove(chosen)
        order.append(chosen)
    return order[::-1]


def occupied_links(graph) -> tuple[np.ndarray, np.ndarray]:
    """Sparsity of the errors of all links by the free directions of a step and of the next one, (rows, free);
    determined directions are replaced by the directions they depend on."""
    columns = len(graph.column_names)
    blocks = [np.zeros((2, 0, columns), dtype=bool)]
    blocks += [_occupied(graph, factor) for factor in graph.weighted if factor.after]
    here, after = np.concatenate(blocks, axis=1)
    depends = _dependence(graph)
    return here @ depends, after @ depends


def _dependence(graph):
    """(columns, free): the free directions that every direction depends on."""
    exact = np.concatenate(
        [np.zeros((0, len(graph.column_names)), dtype=bool)]
        + [_occupied(graph, factor)[0] for factor in graph.exact]
    )
    dependence = np.eye(len(graph.column_names), dtype=bool)[:, graph.free]
    needs = exact[:, graph.determined] | np.eye(len(exact), dtype=bool)
    for _ in range(len(needs).bit_length()):
        needs = needs @ needs
    dependence[graph.determined] = needs @ exact[:, graph.free]
    return dependence


def _occupied(graph, factor):
    """(2, rows, columns): sparsity of the Jacobian of a factor by the directions of its step and of the next
    one."""
    program = factor_program(factor, graph.variables_of(factor))
    occupied = np.zeros((2, len(factor.rows), len(graph.column_names)), dtype=bool)
    for name, step, argument in factor.variables:
        numbers = program.outputs[f"by {argument}"] - program.input_size
        constant = (numbers >= 0) & (numbers < len(program.constants))
        zero = constant & (np.append(program.constants, 1.0)[np.where(constant, numbers, -1)] == 0)
        occupied[step][:, graph.columns[name]] = ~zero
    return occupied
