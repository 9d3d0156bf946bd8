"""Dynamics over many steps of time as one nonlinear least-squares problem (paper 2): any robot, compiled."""

from dynamics_node.trajectory.factor import Factor, factor_program
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph, prior
from dynamics_node.trajectory.losses import Loss, cauchy, geman_mcclure
from dynamics_node.trajectory.variables import Variable, positions, vector

__all__ = [
    "Factor",
    "Loss",
    "Prior",
    "Steps",
    "TrajectoryGraph",
    "Variable",
    "cauchy",
    "factor_program",
    "geman_mcclure",
    "positions",
    "prior",
    "vector",
]
