"""Dynamics over many time steps as one nonlinear least-squares problem (paper 2)."""

from dynamics_node.trajectory.animation import write_animation
from dynamics_node.trajectory.capability import (
    Capability,
    Manipulability,
    capability,
    effective_mass,
    manipulability,
)
from dynamics_node.trajectory.check_functions import CheckFunctions, Slowdown
from dynamics_node.trajectory.check_page import verdict, write_check
from dynamics_node.trajectory.factor import (
    Loss,
    TrajectoryFactor,
    cauchy,
    factor_program,
    geman_mcclure,
    positions,
    vector,
)
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.gauss_newton import BatchSolver
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph, inverse_graph
from dynamics_node.trajectory.gtsam_graph import from_gtsam, gtsam_key, to_gtsam
from dynamics_node.trajectory.inverse_problem import inverse_trajectory
from dynamics_node.trajectory.joint_smoother import SmootherOptions
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import LIMIT_KEYS, Margin, described
from dynamics_node.trajectory.path_timing import scale_trajectory, scaled
from dynamics_node.trajectory.polytopes import Ellipsoid, Polytope
from dynamics_node.trajectory.recorded_trajectory import smooth
from dynamics_node.trajectory.robot_drawing import Drawing, robot_drawing
from dynamics_node.trajectory.robot_factors import (
    acceleration_constraint,
    accelerometer,
    bias_of,
    encoder,
    gyro,
    imu,
    inverse_dynamics,
    position_constraint,
    prior_factor,
    random_walk,
    torque,
    trapezoidal,
    velocity_constraint,
    velocity_reading,
)
from dynamics_node.trajectory.simulation import simulate
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.trajectory import Trajectory
from dynamics_node.trajectory.trajectory_check import TrajectoryCheck, check_trajectory, checked
from dynamics_node.trajectory.trajectory_graph import Prior, Steps, TrajectoryGraph, prior
from dynamics_node.trajectory.trajectory_messages import joint_trajectory_of, read_joint_trajectory

__all__ = [
    "LIMIT_KEYS",
    "BatchSolver",
    "Capability",
    "CheckFunctions",
    "Drawing",
    "Ellipsoid",
    "FixedLag",
    "JointTrajectory",
    "Loss",
    "Manipulability",
    "Margin",
    "Polytope",
    "Prior",
    "Slowdown",
    "SmootherOptions",
    "Steps",
    "System",
    "Trajectory",
    "TrajectoryCheck",
    "TrajectoryFactor",
    "TrajectoryGraph",
    "acceleration_constraint",
    "accelerometer",
    "bias_of",
    "capability",
    "cauchy",
    "check_trajectory",
    "checked",
    "described",
    "effective_mass",
    "encoder",
    "estimation_graph",
    "factor_program",
    "forward_graph",
    "from_gtsam",
    "geman_mcclure",
    "gtsam_key",
    "gyro",
    "imu",
    "inverse_dynamics",
    "inverse_graph",
    "inverse_trajectory",
    "joint_trajectory_of",
    "manipulability",
    "position_constraint",
    "positions",
    "prior",
    "prior_factor",
    "random_walk",
    "read_joint_trajectory",
    "robot_drawing",
    "robot_system",
    "scale_trajectory",
    "scaled",
    "simulate",
    "smooth",
    "to_gtsam",
    "torque",
    "trapezoidal",
    "vector",
    "velocity_constraint",
    "velocity_reading",
    "verdict",
    "write_animation",
    "write_check",
]
