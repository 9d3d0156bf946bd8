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
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph
from dynamics_node.trajectory.gtsam_graph import from_gtsam, gtsam_key, to_gtsam
from dynamics_node.trajectory.inverse_problem import inverse_trajectory
from dynamics_node.trajectory.joint_smoother import SmootherOptions
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import Margin
from dynamics_node.trajectory.path_timing import scale_trajectory, scaled
from dynamics_node.trajectory.polytopes import Ellipsoid, Polytope
from dynamics_node.trajectory.recorded_trajectory import smooth
from dynamics_node.trajectory.robot_drawing import Drawing, robot_drawing
from dynamics_node.trajectory.robot_factors import prior_factor, random_walk, trapezoidal
from dynamics_node.trajectory.simulation import simulate
from dynamics_node.trajectory.stop_search import MotionState
from dynamics_node.trajectory.stopping import (
    LinkTravel,
    StopOptions,
    StoppingTrajectory,
    stop_on_path,
    stopped,
    stopped_on_path,
    stopping_trajectory,
)
from dynamics_node.trajectory.stopping_table import Deceleration, StoppingTable, stopping_table
from dynamics_node.trajectory.systems import robot_system
from dynamics_node.trajectory.trajectory import Trajectory
from dynamics_node.trajectory.trajectory_check import CheckOptions, TrajectoryCheck, check_trajectory, checked
from dynamics_node.trajectory.trajectory_graph import Prior, Steps, TrajectoryGraph, prior
from dynamics_node.trajectory.trajectory_messages import joint_trajectory_of, read_joint_trajectory
