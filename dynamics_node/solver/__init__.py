"""The public facade: everything in one line, `build(model, problem)`."""

from dynamics_node.solver.build import build, build_closing, build_for_service
from dynamics_node.solver.checks import InputError, SolutionError
from dynamics_node.solver.choices import BACKENDS, SOLVERS, ChoiceError, resolve
from dynamics_node.solver.functions import (
    bias,
    link_jacobian,
    link_pose,
    mass_matrix,
    operational_space_inertia,
)
from dynamics_node.solver.quantities import QUANTITIES, Quantity, build_derivatives, build_quantity
from dynamics_node.solver.solvers import (
    ForwardDynamics,
    HybridDynamics,
    InverseDynamics,
    Solver,
)

__all__ = [
    "BACKENDS",
    "QUANTITIES",
    "SOLVERS",
    "ChoiceError",
    "ForwardDynamics",
    "HybridDynamics",
    "InputError",
    "InverseDynamics",
    "Quantity",
    "SolutionError",
    "Solver",
    "bias",
    "build",
    "build_closing",
    "build_derivatives",
    "build_for_service",
    "build_quantity",
    "link_jacobian",
    "link_pose",
    "mass_matrix",
    "operational_space_inertia",
    "resolve",
]
