"""Robots as data: bodies, joints, constraints, sensors, their URDF; Problems."""

from dynamics_node.robot.bodies import Joint
from dynamics_node.robot.example_robots import example_robot, example_robot_file
from dynamics_node.robot.grouping import Cluster
from dynamics_node.robot.loading import load_robot, parse_robot
from dynamics_node.robot.problem import (
    KINDS,
    Problem,
    forward_dynamics,
    hybrid_dynamics,
    inverse_dynamics,
    named,
)
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.sensor_problem import SensorProblem, sensor_problem
from dynamics_node.robot.state_arrays import Shapes, state_shapes
