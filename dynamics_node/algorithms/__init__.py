"""Recursive algorithms over arrays: leading axes are the batch, elements are floats or symbols."""

from dynamics_node.algorithms.aba import aba
from dynamics_node.algorithms.carried import carried_wrench, tool_regressor
from dynamics_node.algorithms.coriolis import coriolis_matrix
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.friction import friction_torque
from dynamics_node.algorithms.jacobian import link_jacobian, link_pose
from dynamics_node.algorithms.joint_wrenches import joint_wrenches
from dynamics_node.algorithms.link_motion import link_motion
from dynamics_node.algorithms.momentum import momentum
from dynamics_node.algorithms.operational_space import operational_space_inertia
from dynamics_node.algorithms.regressors import (
    energy_regressor,
    inertial_parameters,
    inertias_of_parameters,
    joint_regressor,
    joint_torque_regressor,
    momentum_regressor,
)
from dynamics_node.algorithms.rnea import bias, rnea
from dynamics_node.algorithms.whole import (
    centre_of_mass,
    centre_of_mass_motion,
    kinetic_energy,
    momentum_matrix,
    potential_energy,
    spatial_momentum,
)
from dynamics_node.algorithms.wrench import external_wrenches

__all__ = [
    "aba",
    "bias",
    "carried_wrench",
    "centre_of_mass",
    "centre_of_mass_motion",
    "coriolis_matrix",
    "crba",
    "energy_regressor",
    "external_wrenches",
    "friction_torque",
    "inertial_parameters",
    "inertias_of_parameters",
    "joint_regressor",
    "joint_torque_regressor",
    "joint_wrenches",
    "kinetic_energy",
    "link_jacobian",
    "link_motion",
    "link_pose",
    "momentum",
    "momentum_matrix",
    "momentum_regressor",
    "operational_space_inertia",
    "potential_energy",
    "rnea",
    "spatial_momentum",
    "tool_regressor",
]
