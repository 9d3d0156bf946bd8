"""Model and Problem -> Solver."""

from dynamics_node.backends.gtsam_elimination import gtsam_elimination
from dynamics_node.backends.numeric_elimination import numeric_elimination
from dynamics_node.backends.recursive import RecursiveEngine
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.solver.choices import resolve
from dynamics_node.solver.solvers import ForwardDynamics, HybridDynamics, InverseDynamics, Solver

_CALLABLE = {"inverse": InverseDynamics, "forward": ForwardDynamics, "hybrid": HybridDynamics}


def build(model: Model, problem: Problem, solver="best", ordering="best", backend="auto") -> Solver:
    """A callable that solves the problem for the robot.

    solver: 'factor_graph', 'cluster' (the recursions) or 'best'; ordering (factor_graph): rnea, crba,
    aba, colamd, metis (nested dissection), minimum_degree, best, or variable names; backend: numpy,
    gtsam or auto. Raises ChoiceError for a combination that does not exist, SingularPivotError for an
    ordering this robot does not allow, ImportError for an absent extra, ValueError besides.
    """
    choice = resolve(solver, ordering, backend)
    return _CALLABLE[problem.kind](model, problem, choice, _engine(model, problem, choice))


def _engine(model, problem, choice):
    if choice.solver == "cluster":
        return RecursiveEngine(model, problem)
    if choice.backend == "gtsam":
        return gtsam_elimination(model, problem, choice.ordering)
    return numeric_elimination(model, problem, choice.ordering)
