"""The factor graph of a trajectory: the same variables and factors at every step, other numbers.

Directions of a step, and errors of its links, are eliminated in an order of their own. Blocks are dense, but
right sides are not: one costs nothing until a row in which it has something is eliminated, and from then on
it is full (George and Liu 1981, Computer Solution of Large Sparse Positive Definite Systems, sec. 6.2). So
rows come first that make few right sides full.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.robot import Shapes
from dynamics_node.trajectory.factor import Factor, Variable, factor_program

CHANGE, LINKED, DAMPING = "change", "linked", "damping"  # numbers of a row that solvers write


@dataclass(frozen=True, eq=False)
class TrajectoryGraph:
    """variables and factors of every step; a factor that is not there at some step has no weight then.

    The directions of all variables, one after the other, are columns: those that exact factors determine,
    and the free ones. Raises ValueError, by name, for factors that name what is not there.
    """

    variables: tuple[Variable, ...]
    factors: tuple[Factor, ...]

    def __post_init__(self):
        _refuse_twice("variable", [variable.name for variable in self.variables])
        _refuse_twice("factor", [factor.name for factor in self.factors])
        for factor in self.factors:
            for name in (*factor.now, *factor.after):
                if name not in self.columns:
                    raise ValueError(f"factor {factor.name!r}: there is no variable {name!r}")
        _refuse_twice("determined", [self.column_names[k] for k in self.determined])
        assert self.data  # raises where shapes differ

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Where the directions of every variable are."""
        ends = np.cumsum([variable.tangent for variable in self.variables]).tolist()
        return {v.name: slice(end - v.tangent, end) for v, end in zip(self.variables, ends, strict=True)}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """'variable name' of every direction."""
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
        """The free columns as they are eliminated, the last one first."""
        return [self.free[k] for k in last_first(occupied_links(self)[0].T)]

    @cached_property
    def link_order(self) -> list[int]:
        """The rows of the factors towards the next step, as they are eliminated."""
        return last_first(occupied_links(self)[1])

    def variables_of(self, factor: Factor) -> tuple[Variable, ...]:
        """Those that a factor names."""
        return tuple(v for v in self.variables if v.name in (*factor.now, *factor.after))

    @property
    def exact(self):
        return [factor for factor in self.factors if factor.exact]

    @property
    def weighted(self):
        return [factor for factor in self.factors if not factor.exact]

    @cached_property
    def data(self) -> Shapes:
        """{name: shape} of what is told at every step; the time to the next one, dt (1,), is."""
        shapes: Shapes = {"dt": (1,)}
        for factor in self.factors:
            for name, shape in factor.data.items():
                if shapes.setdefault(name, shape) != shape:
                    raise ValueError(f"data {name!r} of factor {factor.name!r}: {shape}, not {shapes[name]}")
        return shapes

    @cached_property
    def row(self) -> Shapes:
        """{name: shape} of all numbers of a step, in order: variables, by how much they were changed last,
        squared; data; weights (one over the variance of the rows) of factors; 1 where a step follows, 0 at
        the last one; damping."""
        shapes: Shapes = {variable.name: (variable.size,) for variable in self.variables}
        shapes |= {CHANGE: (1,)} | self.data
        shapes |= {weights_of(factor.name): (len(factor.rows),) for factor in self.weighted}
        return shapes | {LINKED: (1,), DAMPING: (1,)}

    @property
    def ahead(self) -> Shapes:
        """The first numbers of `row`: what a step reads of the next one."""
        names = [*(variable.name for variable in self.variables), CHANGE, *self.data]
        return {name: self.row[name] for name in names}

    @property
    def stored(self) -> int:
        """How many numbers the variables are."""
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
    """The numbers of all steps of a trajectory: steps['q'] is a view (count, *shape) of a variable or of
    data, to read and to write. rows (count + 1, width): one more, which the last step looks at in vain."""

    graph: TrajectoryGraph
    rows: np.ndarray

    def __len__(self):
        return len(self.rows) - 1

    def __getitem__(self, name) -> np.ndarray:
        return self.views[name]

    @cached_property
    def views(self) -> dict[str, np.ndarray]:
        """{name: (count, *shape)} of a row."""
        found, start = {}, 0
        for name, shape in self.graph.row.items():
            size = int(np.prod(shape))
            found[name] = self.rows[: len(self), start : start + size].reshape(len(self), *shape)
            start += size
        return found

    def weigh(self, factor, variance):
        """Give a factor its variance (rows,) or (count, rows), infinite where it is not there. Raises
        ValueError unless positive, KeyError for a factor that has none."""
        variance = np.asarray(variance, dtype=float)
        if not (variance > 0).all():
            raise ValueError(f"variances of factor {factor!r} must be positive, not {variance.min()}")
        self[weights_of(factor)][:] = 1.0 / variance

    def copy(self) -> "Steps":
        return Steps(self.graph, self.rows.copy())


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known of a first step: a quadratic of the directions x (free,) from values {variable: (size,)}
    of all variables, least where information (free, free) x = pull (free,)."""

    values: dict[str, np.ndarray]
    information: np.ndarray
    pull: np.ndarray

    def cost(self, graph: TrajectoryGraph, steps: Steps):
        """Half of its squared error, less that of the values."""
        error = self.error(graph, steps)
        return float(error @ (0.5 * (self.information @ error) - self.pull))

    def stored(self, graph: TrajectoryGraph):
        """The values of all variables, side by side."""
        return np.concatenate([self.values[variable.name] for variable in graph.variables])

    def error(self, graph: TrajectoryGraph, steps: Steps):
        """(free,): by how much the first step differs from the values."""
        parts = [v.difference(steps[v.name][0], self.values[v.name]) for v in graph.variables]
        return np.concatenate(parts)[graph.free]


def prior(graph: TrajectoryGraph, values, variances) -> Prior:
    """A Prior with `variances` {variable: (tangent,) or one for all}; of variables that are not named nothing
    is known but `values`, where the search begins."""
    diagonal = np.zeros(len(graph.column_names))
    for name, variance in variances.items():
        diagonal[graph.columns[name]] = 1.0 / np.asarray(variance, dtype=float)
    complete = {v.name: np.array(values.get(v.name, v.neutral), dtype=float) for v in graph.variables}
    return Prior(complete, np.diag(diagonal[graph.free]), np.zeros(len(graph.free)))


def _refuse_twice(what, names: Iterable[str]):
    names = list(names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} twice: {', '.join(twice)}")


# --- orders of elimination ----------------------------------------------------------------------------------


def last_first(occupied) -> list[int]:
    """Rows of right sides (rows, columns), bool, in an order to be eliminated from the end."""
    left, full, order = list(range(len(occupied))), np.zeros(occupied.shape[1], dtype=bool), []
    while left:
        chosen = min(reversed(left), key=lambda row: np.count_nonzero(occupied[row] & ~full))
        full |= occupied[chosen]
        left.remove(chosen)
        order.append(chosen)
    return order[::-1]


def occupied_links(graph) -> tuple[np.ndarray, np.ndarray]:
    """Of the errors of all links by the free directions of a step and of the next one, (rows, free), where
    they may be other than zero; what exact factors determine is counted as what it depends on."""
    columns = len(graph.column_names)
    blocks = [np.zeros((2, 0, columns), dtype=bool)]
    blocks += [_occupied(graph, factor) for factor in graph.weighted if factor.after]
    own, after = np.concatenate(blocks, axis=1)
    depends = _dependence(graph)
    return own @ depends, after @ depends


def _dependence(graph):
    """(columns, free): on which free directions every direction depends."""
    exact = np.concatenate(
        [np.zeros((0, len(graph.column_names)), dtype=bool)]
        + [_occupied(graph, factor)[0] for factor in graph.exact]
    )
    found = np.eye(len(graph.column_names), dtype=bool)[:, graph.free]
    needs = exact[:, graph.determined] | np.eye(len(exact), dtype=bool)
    for _ in range(len(needs).bit_length()):
        needs = needs @ needs
    found[graph.determined] = needs @ exact[:, graph.free]
    return found


def _occupied(graph, factor):
    """(2, rows, columns): the Jacobian of a factor by the directions of its step, and of the next one."""
    program = factor_program(factor, graph.variables_of(factor))
    found = np.zeros((2, len(factor.rows), len(graph.column_names)), dtype=bool)
    for name, step, argument in factor.variables:
        numbers = program.outputs[f"by {argument}"] - program.input_size
        constant = (numbers >= 0) & (numbers < len(program.constants))
        zero = constant & (np.append(program.constants, 1.0)[np.where(constant, numbers, -1)] == 0)
        found[step][:, graph.columns[name]] = ~zero
    return found
