"""Inertias and friction from recordings; excitation design; checks of descriptions (doctor)."""

from dynamics_node.identification.base_parameters import BaseParameters, base_parameters
from dynamics_node.identification.consistent import consistent_parameters
from dynamics_node.identification.filtering import LowPass
from dynamics_node.identification.identify import METHODS, ROBUST, IdentificationError, Identified, identify
from dynamics_node.identification.informativeness import Excitation, excitation
from dynamics_node.identification.linear import TERMS, USUAL, LinearModel
from dynamics_node.identification.page import write_page
from dynamics_node.identification.robots import identified_numbers, identified_robot, identified_text
from dynamics_node.identification.solve import Solution, ordinary, weighted
from dynamics_node.identification.sums import Sums
from dynamics_node.identification.words import Verdict, verdicts
from dynamics_node.identification.worse import worse_joints

__all__ = [
    "METHODS",
    "ROBUST",
    "TERMS",
    "USUAL",
    "BaseParameters",
    "Excitation",
    "IdentificationError",
    "Identified",
    "LinearModel",
    "LowPass",
    "Solution",
    "Sums",
    "Verdict",
    "base_parameters",
    "consistent_parameters",
    "excitation",
    "identified_numbers",
    "identified_robot",
    "identified_text",
    "identify",
    "ordinary",
    "verdicts",
    "weighted",
    "worse_joints",
    "write_page",
]
