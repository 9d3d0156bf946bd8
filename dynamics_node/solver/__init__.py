"""The public facade: everything in one line, `build(model, problem)`."""

from dynamics_node.backends import CompileError
from dynamics_node.numeric import Judgement, Solvability, chi_square_limit, solvability
from dynamics_node.programs import QUANTITIES
from dynamics_node.solver.build import (
    build,
    build_closing,
    build_derivatives,
    build_for_service,
    build_quantity,
    build_quantity_for_service,
    changeable,
)
from dynamics_node.solver.checks import InputError, SolutionError
from dynamics_node.solver.choices import BACKENDS, SOLVERS, ChoiceError, resolve
from dynamics_node.solver.closing import Closing
from dynamics_node.solver.estimator import Estimate, Estimator, UnsolvableError, build_estimator
from dynamics_node.solver.evaluate import evaluate_quantity
from dynamics_node.solver.function import Function, ProgramFunction, function
from dynamics_node.solver.functions import (
    bias,
    link_jacobian,
    link_pose,
    mass_matrix,
    operational_space_inertia,
)
from dynamics_node.solver.solvers import (
    ForwardDynamics,
    HybridDynamics,
    InverseDynamics,
    Quantity,
    RobotFunction,
    Solver,
)
from dynamics_node.solver.tool import Tool, identify_tool

__all__ = [
    "BACKENDS",
    "QUANTITIES",
    "SOLVERS",
    "ChoiceError",
    "Closing",
    "CompileError",
    "Estimate",
    "Estimator",
    "ForwardDynamics",
    "Function",
    "HybridDynamics",
    "InputError",
    "InverseDynamics",
    "Judgement",
    "ProgramFunction",
    "Quantity",
    "RobotFunction",
    "SolutionError",
    "Solvability",
    "Solver",
    "Tool",
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
    "chi_square_limit",
    "evaluate_quantity",
    "function",
    "identify_tool",
    "link_jacobian",
    "link_pose",
    "mass_matrix",
    "operational_space_inertia",
    "resolve",
    "solvability",
]
