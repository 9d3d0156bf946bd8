"""Algorithms of robots, on floats or symbols: recursions, loop closure, the table of quantities."""

from dynamics_node.algorithms.aba import aba
from dynamics_node.algorithms.actuation import Actuation, Driven
from dynamics_node.algorithms.crba import coriolis_matrix, crba
from dynamics_node.algorithms.derivative_programs import derivative_program
from dynamics_node.algorithms.dynamics_programs import (
    cheapest,
    cost,
    dynamics_programs,
)
from dynamics_node.algorithms.energy_and_momentum import (
    center_of_mass,
    center_of_mass_motion,
    centroidal_momentum,
    centroidal_momentum_matrix,
    generalized_momentum,
    kinetic_energy,
    potential_energy,
    spatial_momentum,
    spatial_momentum_matrix,
)
from dynamics_node.algorithms.first_positions import continued, first_closed
from dynamics_node.algorithms.frame_kinematics import frame_jacobian, frame_kinematics, frame_pose
from dynamics_node.algorithms.joint_friction import friction_torque, smooth_friction
from dynamics_node.algorithms.limbs import isomorphic_inputs, limb_after_limb, reordered
from dynamics_node.algorithms.loading import load_robot, parse_robot, robot_from_description
from dynamics_node.algorithms.loop_closure import close_loops, step_program
from dynamics_node.algorithms.quantities import (
    QUANTITIES,
    ArrayQuantity,
    Quantity,
    QuantityName,
    QuantityOptions,
    quantity_program,
    quantity_programs,
)
from dynamics_node.algorithms.rates import spanning
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_shapes, parameter_values
from dynamics_node.algorithms.regressors import (
    energy_regressor,
    inertial_parameters,
    inertias_of_parameters,
    joint_regressor,
    joint_torque_regressor,
    momentum_regressor,
)
from dynamics_node.algorithms.results import NearestDynamics
from dynamics_node.algorithms.rnea import nonlinear_effects, rnea
from dynamics_node.algorithms.wrenches import (
    external_wrenches,
    reaction_wrenches,
    sensor_wrench,
    tool_regressor,
)

__all__ = [
    "QUANTITIES",
    "Actuation",
    "ArrayQuantity",
    "Driven",
    "NearestDynamics",
    "Quantity",
    "QuantityName",
    "QuantityOptions",
    "aba",
    "center_of_mass",
    "center_of_mass_motion",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "cheapest",
    "close_loops",
    "continued",
    "coriolis_matrix",
    "cost",
    "crba",
    "derivative_program",
    "dynamics_programs",
    "economical_robot",
    "energy_regressor",
    "external_wrenches",
    "first_closed",
    "frame_jacobian",
    "frame_kinematics",
    "frame_pose",
    "friction_torque",
    "generalized_momentum",
    "inertial_parameters",
    "inertias_of_parameters",
    "isomorphic_inputs",
    "joint_regressor",
    "joint_torque_regressor",
    "kinetic_energy",
    "limb_after_limb",
    "load_robot",
    "momentum_regressor",
    "nonlinear_effects",
    "parameter_shapes",
    "parameter_values",
    "parse_robot",
    "potential_energy",
    "quantity_program",
    "quantity_programs",
    "reaction_wrenches",
    "reordered",
    "rnea",
    "robot_from_description",
    "sensor_wrench",
    "smooth_friction",
    "spanning",
    "spatial_momentum",
    "spatial_momentum_matrix",
    "step_program",
    "tool_regressor",
]
