"""Robots as data: bodies, joints, constraints, sensors, their URDF; Problems."""

from dynamics_node.robot.bodies import Body, Frame, Joint
from dynamics_node.robot.grouping import Cluster
from dynamics_node.robot.problem import (
    KINDS,
    Problem,
    forward_dynamics,
    hybrid_dynamics,
    inverse_dynamics,
    named,
)
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.sensor_problem import SensorProblem, WrenchSite, sensor_problem
from dynamics_node.robot.state_arrays import Shapes, state_shapes

__all__ = [
    "KINDS",
    "Body",
    "Cluster",
    "Frame",
    "Joint",
    "Problem",
    "Robot",
    "SensorProblem",
    "Shapes",
    "WrenchSite",
    "forward_dynamics",
    "hybrid_dynamics",
    "inverse_dynamics",
    "named",
    "sensor_problem",
    "state_shapes",
]
