"""Closed kinematic loops, gears and belts: a tree and constraints, solved by clusters of bodies (paper 3)."""

from dynamics_node.loops.actuation import Actuation, Driven
from dynamics_node.loops.assemble import assemble_mechanism, load_mechanism, parse_mechanism
from dynamics_node.loops.close import ClosureError, close_loops
from dynamics_node.loops.kinds import Custom, Linear, LoopJoint
from dynamics_node.loops.mechanism import Cluster, Mechanism

__all__ = [
    "Actuation",
    "ClosureError",
    "Cluster",
    "Custom",
    "Driven",
    "Linear",
    "LoopJoint",
    "Mechanism",
    "assemble_mechanism",
    "close_loops",
    "load_mechanism",
    "parse_mechanism",
]
