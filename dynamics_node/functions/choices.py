"""Valid combinations of solver, ordering and backend."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from dynamics_node.chains import CFA_ORDERINGS
from dynamics_node.chains import SOLVERS as PARALLEL
from dynamics_node.codegen import DEVICES
from dynamics_node.errors import ChoiceError
from dynamics_node.graph import ORDERINGS
from dynamics_node.text import similar

Backend = Literal["auto", "numpy", "c", "cuda", "gtsam"]
Solver = Literal["best", "factor_graph", "cluster", "cfa", "jsiia", "abia"]
Precision = Literal["float64", "float32"]
Singular = Literal["error", "nearest"]
SOLVERS, BACKENDS, PRECISIONS = get_args(Solver), get_args(Backend), get_args(Precision)
SINGULAR = get_args(Singular)
COMPILED = ("auto", "c", *DEVICES)  # backends that run Programs
_BACKENDS_OF = {"best": BACKENDS[:-1], "factor_graph": BACKENDS, "cluster": BACKENDS[:-1]}
_BACKENDS_OF |= dict.fromkeys(PARALLEL, ("auto", "numpy", "cuda"))


class Choice(NamedTuple):
    """A valid combination; ordering is a name, variable names, or None for a solver without orderings."""

    solver: str
    ordering: str | tuple[str, ...] | None
    backend: str


def resolve(solver: str = "best", ordering: str | Iterable[str] = "best", backend: str = "auto") -> Choice:
    """The combination with `best` replaced by a solver or ordering; `build` decides `auto`. An ordering alone
    implies the factor graph.

    Raises ChoiceError for an unknown or impossible combination.
    """
    require_known("solver", solver, SOLVERS)
    require_known("backend", backend, BACKENDS)
    if backend not in _BACKENDS_OF[solver]:
        raise ChoiceError(
            f"solver {solver!r} does not run on backend {backend!r}, but on {', '.join(_BACKENDS_OF[solver])}"
        )
    if not isinstance(ordering, str):
        ordering = tuple(ordering)
    if solver == "factor_graph" or (solver == "best" and ordering != "best"):
        if isinstance(ordering, str):
            require_known("ordering", ordering, (*ORDERINGS, "best"))
        return Choice("factor_graph", ordering, backend)
    if solver == "cfa":
        require_known("ordering", ordering, ("best", *CFA_ORDERINGS))
        return Choice(solver, ordering, backend)
    if ordering != "best":
        raise ChoiceError(
            f"orderings belong to solver 'factor_graph': with solver {solver!r}, ordering must be 'best'"
        )
    return Choice(solver if solver in PARALLEL else "cluster", None, backend)


def require_known(kind, name, names):
    if not isinstance(name, str) or name not in names:
        raise ChoiceError(f"unknown {kind} {name!r}; {similar(name, names)}")
