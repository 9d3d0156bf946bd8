"""Motions that make the base parameters of a robot best known, within its limits; see docs/excitation.md."""

from dynamics_node.identification.excitation.bounds import Bounds, joint_bounds
from dynamics_node.identification.excitation.constraints import Box
from dynamics_node.identification.excitation.excite import CRITERIA, UNITS, ExcitationError, excite, solutions
from dynamics_node.identification.excitation.excited import RATE, Excited
from dynamics_node.identification.excitation.limits_file import read_limits
from dynamics_node.identification.excitation.message import joint_trajectory, message_text

__all__ = [
    "CRITERIA",
    "RATE",
    "UNITS",
    "Bounds",
    "Box",
    "ExcitationError",
    "Excited",
    "excite",
    "joint_bounds",
    "joint_trajectory",
    "message_text",
    "read_limits",
    "solutions",
]
