"""What a robot is made of, from how it moves: base parameters, what a motion tells about them, and
identification of inertias and friction from recordings.

It knows no file: recordings come as chunks of arrays, descriptions as text.
"""

from dynamics_node.identification.base_parameters import BaseParameters, base_parameters
from dynamics_node.identification.consistent import consistent_parameters
from dynamics_node.identification.excitation import Excitation, excitation
from dynamics_node.identification.filtering import LowPass
from dynamics_node.identification.identify import METHODS, ROBUST, IdentificationError, Identified, identify
from dynamics_node.identification.linear import TERMS, USUAL, LinearModel
from dynamics_node.identification.page import write_page
from dynamics_node.identification.payload.recordings import estimate_payload
from dynamics_node.identification.payload.recursive import (
    PayloadFunctions,
    RecursivePayload,
    payload_functions,
)
from dynamics_node.identification.payload.result import Payload, require_bearing
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
    "Payload",
    "PayloadFunctions",
    "RecursivePayload",
    "Solution",
    "Sums",
    "Verdict",
    "base_parameters",
    "consistent_parameters",
    "estimate_payload",
    "excitation",
    "identified_numbers",
    "identified_robot",
    "identified_text",
    "identify",
    "ordinary",
    "payload_functions",
    "require_bearing",
    "verdicts",
    "weighted",
    "worse_joints",
    "write_page",
]
