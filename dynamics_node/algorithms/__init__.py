"""Algorithms of robots, on floats or symbols: recursions, loop closure, the table of quantities."""

from dynamics_node.algorithms.aba import aba
from dynamics_node.algorithms.actuation import Actuation
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.derivative_programs import derivative_program
from dynamics_node.algorithms.dynamics_programs import (
    cheapest,
    cost,
    dynamics_programs,
)
from dynamics_node.algorithms.energy_and_momentum import generalized_momentum
from dynamics_node.algorithms.first_positions import continued, first_closed
from dynamics_node.algorithms.frame_kinematics import frame_jacobian, frame_kinematics
from dynamics_node.algorithms.joint_friction import friction_torque, smooth_friction
from dynamics_node.algorithms.limbs import isomorphic_inputs, limb_after_limb, reordered
from dynamics_node.algorithms.loop_closure import close_loops, step_program
from dynamics_node.algorithms.quantities import (
    QUANTITIES,
    QuantityOptions,
    quantity_program,
    quantity_programs,
)
from dynamics_node.algorithms.rates import spanning
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_values
from dynamics_node.algorithms.regressors import (
    inertial_parameters,
    inertias_of_parameters,
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
