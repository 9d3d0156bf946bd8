"""Closed kinematic loops, gears and belts: a tree and constraints, solved by clusters of bodies (paper 3)."""

from dynamics_node.loops.actuation import Actuation, Driven
from dynamics_node.loops.first_positions import continued, first_closed
from dynamics_node.loops.from_description import load_robot, parse_robot, robot_from_description
from dynamics_node.loops.positions import ClosureError, close_loops
from dynamics_node.loops.sidecar import read_loops_file
from dynamics_node.loops.spanning import spanning

__all__ = [
    "Actuation",
    "ClosureError",
    "Driven",
    "close_loops",
    "continued",
    "first_closed",
    "load_robot",
    "parse_robot",
    "read_loops_file",
    "robot_from_description",
    "spanning",
]
