"""Model and Problem -> Solver."""

import contextlib
import logging

from dynamics_node.backends.c import CompileError
from dynamics_node.backends.c.cache import read_entry, write_entry
from dynamics_node.backends.closing import Closing, make_closing
from dynamics_node.backends.compiled import compiled_elimination, compiled_recursion
from dynamics_node.backends.gtsam_elimination import gtsam_elimination
from dynamics_node.backends.loop_elimination import loop_elimination
from dynamics_node.backends.loops import mechanism_engine
from dynamics_node.backends.numeric_elimination import NumericElimination, numeric_elimination
from dynamics_node.backends.recursive import recursive_engines
from dynamics_node.loops.determined import require_determined
from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.model.parameters import PARAMETERS, generic_parameters
from dynamics_node.problem import Problem
from dynamics_node.programs import Memory, best_ordering
from dynamics_node.solver.choices import ChoiceError, resolve
from dynamics_node.solver.solvers import ForwardDynamics, HybridDynamics, InverseDynamics, Solver

log = logging.getLogger("dynamics_node")

PRECISIONS = ("float64", "float32")
_CALLABLE = {"inverse": InverseDynamics, "forward": ForwardDynamics, "hybrid": HybridDynamics}


def build(
    model: Model | Mechanism,
    problem: Problem,
    solver="best",
    ordering="best",
    backend="auto",
    parameters=(),
    precision="float64",
) -> Solver:
    """A callable that solves the problem for the robot.

    solver: 'factor_graph', 'cluster' (the recursions) or 'best'; ordering (factor_graph): rnea, crba,
    aba, colamd, metis (nested dissection), minimum_degree, best, or variable names; backend: c
    (compiled for this robot and cached), numpy, gtsam, or auto: c where it works. parameters: what
    `Solver.with_model` may change without another build: 'inertia', 'armature'; precision: 'float64' or
    'float32', see Solver. The factor graph of a Mechanism takes no backend c. Raises
    CompileError for backend c without a compiler, ChoiceError for a combination that does not exist,
    ModelError (joints by name) where torques do not determine accelerations, SingularPivotError for an
    ordering this robot does not allow, ImportError for an absent extra, ValueError besides.
    """
    if unknown := set(parameters) - set(PARAMETERS):
        raise ValueError(f"unknown parameters {sorted(unknown)}; there are {', '.join(PARAMETERS)}")
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    choice = resolve(solver, ordering, backend)
    if problem.kind != "inverse":
        require_determined(_with_generic(model, parameters), problem.forward)
    if isinstance(model, Mechanism):
        return _build_mechanism(model, problem, choice, tuple(parameters), precision)
    engines = _engines(model, problem, choice, parameters)
    engine = engines[0]
    if choice.backend in ("c", "auto"):
        engine, backend = _compiled(engines, choice, tuple(parameters))
        choice = choice._replace(backend=backend)
    return _CALLABLE[problem.kind](model, problem, choice, engine, tuple(parameters), precision)


def _with_generic(model, parameters):
    """The robot with values of its parameters that are zero nowhere by chance."""
    if not parameters:
        return model
    tree = generic_parameters(tree_of(model), parameters)
    return model.with_tree(tree) if isinstance(model, Mechanism) else tree


def _build_mechanism(model, problem, choice, parameters, precision):
    """A Solver of a Mechanism: the recursions over clusters, or its factor graph."""
    if choice.solver == "factor_graph":
        return _build_loop_graph(model, problem, choice, parameters, precision)
    if choice.backend != "numpy":
        try:
            engine = mechanism_engine(model, problem, True, parameters)
            choice = choice._replace(backend="c")
        except CompileError as error:
            if choice.backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
            choice = choice._replace(backend="numpy")
    if choice.backend == "numpy":
        engine = mechanism_engine(model, problem, False, parameters)
    return _CALLABLE[problem.kind](model, problem, choice, engine, parameters, precision)


def _build_loop_graph(model, problem, choice, parameters, precision):
    if choice.backend == "c":
        raise ChoiceError(
            "the factor graph of a mechanism with closed loops checks pivots at run time: backend numpy or "
            "gtsam only; solver 'cluster' is compiled"
        )
    backend = "numpy" if choice.backend == "auto" else choice.backend
    engine = loop_elimination(model, problem, choice.ordering, backend)
    choice = choice._replace(backend=backend)
    return _CALLABLE[problem.kind](model, problem, choice, engine, parameters, precision)


def build_closing(mechanism: Mechanism, backend="auto") -> Closing:
    """`close_loops` of one position after the other at the rate of a controller: see Closing. backend: c,
    numpy, or auto: c where it works. Raises CompileError for backend c without a compiler."""
    if backend != "numpy":
        try:
            return make_closing(mechanism, True)
        except CompileError as error:
            if backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
    return make_closing(mechanism, False)


def build_for_service(model: Model | Mechanism, problem: Problem, batches=False, **choice) -> Solver:
    """What the node serves with: inertias, and rotors if there are any, can change; all is compiled at once,
    with `batches` also what many states need.

    choice: solver, ordering, backend of `build`; raises as it does.
    """
    parameters = PARAMETERS if tree_of(model).armature.any() else ("inertia",)
    solver = build(model, problem, **choice, parameters=parameters)
    solver.prepare(batches)
    return solver


def _engines(model, problem, choice, parameters):
    """What the choice leaves open, the fastest of numpy first."""
    if choice.solver == "cluster":
        return recursive_engines(model, problem)
    if choice.backend == "gtsam":
        return [gtsam_elimination(model, problem, choice.ordering)]
    if choice.ordering == "best" and choice.backend != "numpy":
        found = best_ordering(model, problem, parameters, Memory(_read, _write))
        if found is not None:
            return [NumericElimination(model, problem, found.ordering, found.plan)]
    return [numeric_elimination(model, problem, choice.ordering, parameters)]


def _read(name):
    """A note of the cache, None where there is none to be trusted."""
    with contextlib.suppress(CompileError):
        return read_entry(name)
    return None


def _write(name, content):
    """Keep a note where there is a place for it."""
    with contextlib.suppress(CompileError):
        write_entry(name, content)


def _compiled(engines, choice, parameters):
    """The cheapest engine as C, or the first as it is where backend auto finds that impossible; and the
    backend's name."""
    engine = engines[0]
    eliminates = isinstance(engine, NumericElimination)
    if eliminates and not engine.plan.safe:
        if choice.backend == "auto":
            return engine, "numpy"
        raise ChoiceError(
            f"ordering {engine.description} checks pivots of this robot at run time: "
            "backend numpy or gtsam only"
        )
    try:
        if eliminates:
            return compiled_elimination(engine, parameters), "c"
        return compiled_recursion(engine.model, engine.problem, parameters), "c"
    except CompileError as error:
        if choice.backend == "c":
            raise
        log.warning("%s; numpy serves instead", error)
        return engine, "numpy"
