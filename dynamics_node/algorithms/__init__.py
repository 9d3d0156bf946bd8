"""Algorithms of robots, on floats or symbols: recursions, loop closure, the table of quantities."""

from dynamics_node.algorithms.aba import aba
from dynamics_node.algorithms.actuation import Actuation, Driven
from dynamics_node.algorithms.closing_program import step_program
from dynamics_node.algorithms.coriolis import coriolis_matrix
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.derivative_programs import derivative_program
from dynamics_node.algorithms.dynamics_programs import dynamics_program, dynamics_programs, recursive_programs
from dynamics_node.algorithms.energy_and_momentum import (
    centre_of_mass,
    centre_of_mass_motion,
    kinetic_energy,
    momentum_matrix,
    potential_energy,
    spatial_momentum,
)
from dynamics_node.algorithms.first_positions import continued, first_closed
from dynamics_node.algorithms.frame_kinematics import link_motion
from dynamics_node.algorithms.friction import friction_torque
from dynamics_node.algorithms.jacobian import link_jacobian, link_pose
from dynamics_node.algorithms.limbs import alike, limb_after_limb, reordered
from dynamics_node.algorithms.loading import load_robot, parse_robot, robot_from_description
from dynamics_node.algorithms.loop_closure import ClosureError, close_loops
from dynamics_node.algorithms.loops_file import read_loops_file
from dynamics_node.algorithms.momentum import momentum
from dynamics_node.algorithms.operational_space import operational_space_inertia
from dynamics_node.algorithms.program_cost import cheapest, cost
from dynamics_node.algorithms.quantities import QUANTITIES, Quantity
from dynamics_node.algorithms.quantity_program import quantity_program, quantity_programs
from dynamics_node.algorithms.reaction_wrenches import joint_wrenches
from dynamics_node.algorithms.reduced_frames import economical, parameter_shapes, parameter_values
from dynamics_node.algorithms.regressors import (
    energy_regressor,
    inertial_parameters,
    inertias_of_parameters,
    joint_regressor,
    joint_torque_regressor,
    momentum_regressor,
)
from dynamics_node.algorithms.rnea import bias, rnea
from dynamics_node.algorithms.rolled_recursions import can_roll, rolled_program
from dynamics_node.algorithms.sensor_wrench import carried_wrench, tool_regressor
from dynamics_node.algorithms.spanning import spanning
from dynamics_node.algorithms.wrench import external_wrenches

__all__ = [
    "QUANTITIES",
    "Actuation",
    "ClosureError",
    "Driven",
    "Quantity",
    "aba",
    "alike",
    "bias",
    "can_roll",
    "carried_wrench",
    "centre_of_mass",
    "centre_of_mass_motion",
    "cheapest",
    "close_loops",
    "continued",
    "coriolis_matrix",
    "cost",
    "crba",
    "derivative_program",
    "dynamics_program",
    "dynamics_programs",
    "economical",
    "energy_regressor",
    "external_wrenches",
    "first_closed",
    "friction_torque",
    "inertial_parameters",
    "inertias_of_parameters",
    "joint_regressor",
    "joint_torque_regressor",
    "joint_wrenches",
    "kinetic_energy",
    "limb_after_limb",
    "link_jacobian",
    "link_motion",
    "link_pose",
    "load_robot",
    "momentum",
    "momentum_matrix",
    "momentum_regressor",
    "operational_space_inertia",
    "parameter_shapes",
    "parameter_values",
    "parse_robot",
    "potential_energy",
    "quantity_program",
    "quantity_programs",
    "read_loops_file",
    "recursive_programs",
    "reordered",
    "rnea",
    "robot_from_description",
    "rolled_program",
    "spanning",
    "spatial_momentum",
    "step_program",
    "tool_regressor",
]
