"""Dynamics of any robot from its URDF: torques, accelerations, operational-space inertias.

import dynamics_node as dn

model = dn.load_model("panda.urdf")
tau = dn.build(model, dn.inverse_dynamics(model))(q, qd, qdd)
"""

from dynamics_node.algorithms import (
    bias,
    crba,
    external_wrenches,
    friction_torque,
    link_jacobian,
    link_pose,
    operational_space_inertia,
)
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
from dynamics_node.model.parameters import with_parameters, with_payload
from dynamics_node.problem import Problem, forward_dynamics, hybrid_dynamics, inverse_dynamics
from dynamics_node.solver import (
    InputError,
    SolutionError,
    build,
    build_closing,
    build_derivatives,
    build_quantity,
)

mass_matrix = crba

__version__ = "0.1.0"
__all__ = [
    "ClosureError",
    "InputError",
    "Mechanism",
    "Model",
    "ModelError",
    "Problem",
    "SolutionError",
    "bias",
    "build",
    "build_closing",
    "build_derivatives",
    "build_quantity",
    "close_loops",
    "external_wrenches",
    "forward_dynamics",
    "friction_torque",
    "hybrid_dynamics",
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
]
