"""Recursive algorithms over arrays: leading axes are the batch, elements are floats or symbols."""

from dynamics_node.algorithms.aba import aba
from dynamics_node.algorithms.carried import carried_wrench, tool_regressor
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.friction import friction_torque
from dynamics_node.algorithms.jacobian import link_jacobian, link_pose
from dynamics_node.algorithms.mass_matrix_dynamics import mass_matrix_dynamics
from dynamics_node.algorithms.momentum import momentum
from dynamics_node.algorithms.operational_space import operational_space_inertia
from dynamics_node.algorithms.rnea import bias, rnea
from dynamics_node.algorithms.wrench import external_wrenches

__all__ = [
    "aba",
    "bias",
    "carried_wrench",
    "crba",
    "external_wrenches",
    "friction_torque",
    "link_jacobian",
    "link_pose",
    "mass_matrix_dynamics",
    "momentum",
    "operational_space_inertia",
    "rnea",
    "tool_regressor",
]
