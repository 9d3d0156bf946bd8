"""Dynamics over many steps of time as one nonlinear least-squares problem (paper 2)."""

from dynamics_node.trajectory.animation import write_animation
from dynamics_node.trajectory.batch import Batch, Solution
from dynamics_node.trajectory.constraints import (
    acceleration_constraint,
    position_constraint,
    prior_factor,
    velocity_constraint,
)
from dynamics_node.trajectory.drawing import Drawing, robot_drawing
from dynamics_node.trajectory.dynamics import forward_dynamics, inverse_dynamics
from dynamics_node.trajectory.errors import (
    InconsistentStart,
    NotConverged,
    SingularPosition,
    TrajectoryError,
    Unobservable,
    WrongBranch,
)
from dynamics_node.trajectory.factor import Factor, factor_program
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph, prior
from dynamics_node.trajectory.graphs import estimation_graph, forward_graph, inverse_graph
from dynamics_node.trajectory.integrators import equality, euler, random_walk, simpson, trapezoidal
from dynamics_node.trajectory.inverse import inverse_trajectory
from dynamics_node.trajectory.joint_smoother import SmootherOptions
from dynamics_node.trajectory.losses import Loss, cauchy, geman_mcclure
from dynamics_node.trajectory.readings import (
    accelerometer,
    bias_of,
    encoder,
    gyro,
    imu,
    torque,
    velocity_reading,
)
from dynamics_node.trajectory.results import Curve, Trajectory
from dynamics_node.trajectory.simulation import simulate
from dynamics_node.trajectory.smoothing import smooth
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.variables import Variable, positions, vector

__all__ = [
    "Batch",
    "Curve",
    "Drawing",
    "Factor",
    "FixedLag",
    "InconsistentStart",
    "Loss",
    "NotConverged",
    "Prior",
    "SingularPosition",
    "SmootherOptions",
    "Solution",
    "Steps",
    "System",
    "Trajectory",
    "TrajectoryError",
    "TrajectoryGraph",
    "Unobservable",
    "Variable",
    "WrongBranch",
    "acceleration_constraint",
    "accelerometer",
    "bias_of",
    "cauchy",
    "encoder",
    "equality",
    "estimation_graph",
    "euler",
    "factor_program",
    "forward_dynamics",
    "forward_graph",
    "geman_mcclure",
    "gyro",
    "imu",
    "inverse_dynamics",
    "inverse_graph",
    "inverse_trajectory",
    "position_constraint",
    "positions",
    "prior",
    "prior_factor",
    "random_walk",
    "robot_drawing",
    "robot_system",
    "simpson",
    "simulate",
    "smooth",
    "torque",
    "trapezoidal",
    "vector",
    "velocity_constraint",
    "velocity_reading",
    "write_animation",
]
