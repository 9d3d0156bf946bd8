"""Dynamics over many steps of time as one nonlinear least-squares problem (paper 2): any robot, compiled."""

from dynamics_node.trajectory.animation import write_animation
from dynamics_node.trajectory.batch import Batch, Solution
from dynamics_node.trajectory.drawing import Drawing, planar_drawing, robot_drawing
from dynamics_node.trajectory.errors import (
    InconsistentStart,
    NotConverged,
    SingularPosition,
    TrajectoryError,
    Unobservable,
    WrongBranch,
)
from dynamics_node.trajectory.estimation import estimate
from dynamics_node.trajectory.factor import Factor, factor_program
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph, prior
from dynamics_node.trajectory.inversion import invert
from dynamics_node.trajectory.joint_smoother import SmootherOptions
from dynamics_node.trajectory.losses import Loss, cauchy, geman_mcclure
from dynamics_node.trajectory.results import Curve, Motion
from dynamics_node.trajectory.simulation import simulate
from dynamics_node.trajectory.variables import Variable, positions, vector

__all__ = [
    "Batch",
    "Curve",
    "Drawing",
    "Factor",
    "FixedLag",
    "InconsistentStart",
    "Loss",
    "Motion",
    "NotConverged",
    "Prior",
    "SingularPosition",
    "SmootherOptions",
    "Solution",
    "Steps",
    "TrajectoryError",
    "TrajectoryGraph",
    "Unobservable",
    "Variable",
    "WrongBranch",
    "cauchy",
    "estimate",
    "factor_program",
    "geman_mcclure",
    "invert",
    "planar_drawing",
    "positions",
    "prior",
    "robot_drawing",
    "simulate",
    "vector",
    "write_animation",
]
