"""The public facade: everything in one line, `build(model, problem)`."""

from dynamics_node.solver.build import build
from dynamics_node.solver.checks import InputError, SolutionError
from dynamics_node.solver.choices import BACKENDS, SOLVERS, ChoiceError, resolve
from dynamics_node.solver.solvers import (
    ForwardDynamics,
    HybridDynamics,
    InverseDynamics,
    Solver,
)

__all__ = [
    "BACKENDS",
    "SOLVERS",
    "ChoiceError",
    "ForwardDynamics",
    "HybridDynamics",
    "InputError",
    "InverseDynamics",
    "SolutionError",
    "Solver",
    "build",
    "resolve",
]
