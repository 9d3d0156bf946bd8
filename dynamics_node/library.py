"""What `import dynamics_node as dn` offers."""

from dynamics_node.algorithms import external_wrenches, friction_torque
from dynamics_node.loops import (
    ClosureError,
    Mechanism,
    close_loops,
    load_mechanism,
    load_robot,
    parse_mechanism,
    parse_robot,
)
from dynamics_node.model import Model, ModelError, load_model, parse_model
from dynamics_node.model.beyond import with_tool
from dynamics_node.model.parameters import with_parameters, with_payload
from dynamics_node.observers import JointFilter, MomentumObserver, ObserverOptions, build_observer
from dynamics_node.problem import Problem, forward_dynamics, hybrid_dynamics, inverse_dynamics
from dynamics_node.solver import (
    Function,
    InputError,
    SolutionError,
    bias,
    build,
    build_closing,
    build_derivatives,
    build_quantity,
    function,
    identify_tool,
    link_jacobian,
    link_pose,
    mass_matrix,
    operational_space_inertia,
)

__all__ = [
    "ClosureError",
    "Function",
    "InputError",
    "JointFilter",
    "Mechanism",
    "Model",
    "ModelError",
    "MomentumObserver",
    "ObserverOptions",
    "Problem",
    "SolutionError",
    "bias",
    "build",
    "build_closing",
    "build_derivatives",
    "build_observer",
    "build_quantity",
    "close_loops",
    "external_wrenches",
    "forward_dynamics",
    "friction_torque",
    "function",
    "hybrid_dynamics",
    "identify_tool",
    "inverse_dynamics",
    "link_jacobian",
    "link_pose",
    "load_mechanism",
    "load_model",
    "load_robot",
    "mass_matrix",
    "operational_space_inertia",
    "parse_mechanism",
    "parse_model",
    "parse_robot",
    "with_parameters",
    "with_payload",
    "with_tool",
]
