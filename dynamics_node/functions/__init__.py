"""What users hold: compiled functions of named arrays, estimators, and their builders."""

from dynamics_node.functions.build import (
    build,
    build_closing,
    build_derivatives,
    build_for_service,
    build_quantity,
    build_quantity_for_service,
    changeable,
)
from dynamics_node.functions.checks import InputError, SolutionError
from dynamics_node.functions.choices import BACKENDS, SOLVERS, ChoiceError, resolve
from dynamics_node.functions.estimator import Estimate, Estimator, UnsolvableError, build_estimator
from dynamics_node.functions.evaluate import evaluate_quantity
from dynamics_node.functions.function import Function, ProgramFunction, function
from dynamics_node.functions.functions import (
    bias,
    link_jacobian,
    link_pose,
    mass_matrix,
    operational_space_inertia,
)
from dynamics_node.functions.loop_solver import Closing
from dynamics_node.functions.solvers import (
    ForwardDynamics,
    HybridDynamics,
    InverseDynamics,
    Quantity,
    RobotFunction,
    Solver,
)

__all__ = [
    "BACKENDS",
    "SOLVERS",
    "ChoiceError",
    "Closing",
    "Estimate",
    "Estimator",
    "ForwardDynamics",
    "Function",
    "HybridDynamics",
    "InputError",
    "InverseDynamics",
    "ProgramFunction",
    "Quantity",
    "RobotFunction",
    "SolutionError",
    "Solver",
    "UnsolvableError",
    "bias",
    "build",
    "build_closing",
    "build_derivatives",
    "build_estimator",
    "build_for_service",
    "build_quantity",
    "build_quantity_for_service",
    "changeable",
    "evaluate_quantity",
    "function",
    "link_jacobian",
    "link_pose",
    "mass_matrix",
    "operational_space_inertia",
    "resolve",
]
