"""Inertias and friction from recordings; excitation design; checks of descriptions (doctor)."""

from dynamics_node.identification.base_parameters import base_parameters, excitation
from dynamics_node.identification.consistent import ConsistentFit
from dynamics_node.identification.filtering import LowPass
from dynamics_node.identification.identification_page import write_page
from dynamics_node.identification.identified_robot import (
    identified_numbers,
    identified_robot,
    identified_text,
)
from dynamics_node.identification.identify import Identified, identify
from dynamics_node.identification.regressor_model import TERMS, USUAL, RegressorModel
from dynamics_node.identification.summary import summary, worse_joints
from dynamics_node.identification.sums import Solution, Sums, weighted
