"""Closed kinematic loops, gears and belts: a tree and constraints, solved by clusters of bodies (paper 3)."""

from dynamics_node.loops.actuation import Actuation, Driven
from dynamics_node.loops.first_positions import continued, first_closed
from dynamics_node.loops.from_description import (
    load_mechanism,
    load_robot,
    mechanism_from_description,
    parse_mechanism,
    parse_robot,
)
from dynamics_node.loops.kinds import Custom, Linear, LoopJoint
from dynamics_node.loops.mechanism import Cluster, Mechanism, tree_of
from dynamics_node.loops.numeric import (
    mechanism_bias,
    mechanism_mass_matrix,
    mechanism_operational_space_inertia,
)
from dynamics_node.loops.positions import ClosureError, close_loops
from dynamics_node.loops.sidecar import read_loops_file

__all__ = [
    "Actuation",
    "ClosureError",
    "Cluster",
    "Custom",
    "Driven",
    "Linear",
    "LoopJoint",
    "Mechanism",
    "close_loops",
    "continued",
    "first_closed",
    "load_mechanism",
    "load_robot",
    "mechanism_bias",
    "mechanism_from_description",
    "mechanism_mass_matrix",
    "mechanism_operational_space_inertia",
    "parse_mechanism",
    "parse_robot",
    "read_loops_file",
    "tree_of",
]
