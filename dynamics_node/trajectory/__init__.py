"""Dynamics over many steps of time as one nonlinear least-squares problem (paper 2): any robot, compiled."""

from dynamics_node.trajectory.batch import Batch, Solution
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
from dynamics_node.trajectory.losses import Loss, cauchy, geman_mcclure
from dynamics_node.trajectory.variables import Variable, positions, vector

__all__ = [
    "Batch",
    "Factor",
    "FixedLag",
    "InconsistentStart",
    "Loss",
    "NotConverged",
    "Prior",
    "SingularPosition",
    "Solution",
    "Steps",
    "TrajectoryError",
    "TrajectoryGraph",
    "Unobservable",
    "Variable",
    "WrongBranch",
    "cauchy",
    "factor_program",
    "geman_mcclure",
    "positions",
    "prior",
    "vector",
]
