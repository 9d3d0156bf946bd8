"""Excitation trajectories that maximize the information about the base parameters, within limits.

See docs/how-to/excitation.md.
"""

from dynamics_node.identification.excitation.bounds import joint_bounds
from dynamics_node.identification.excitation.design import design_excitation, solutions
from dynamics_node.identification.excitation.excitation_trajectory import RATE, ExcitationTrajectory
from dynamics_node.identification.excitation.limits_along_motion import Box
