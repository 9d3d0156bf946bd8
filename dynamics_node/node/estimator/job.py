"""What is built for the estimator, in a process of its own: see node/building/build_process.py."""

from dataclasses import dataclass

from dynamics_node.functions import LoopSolver, build_loop_solver
from dynamics_node.node.building.build_job import described_robot
from dynamics_node.node.state.sensor_readings import Topic, topics_of
from dynamics_node.robot import Robot, sensor_problem
from dynamics_node.robot.joint_names import Pairs
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.trajectory.joint_smoother import Smoothed


@dataclass(frozen=True)
class EstimatedRobot:
    """A checked Robot with what estimates it; topics: of its sensors; closing: what closes its
    loops; notes: what was not to be had, and why."""

    model: Robot
    smoothed: Smoothed
    topics: tuple[Topic, ...]
    closing: LoopSolver | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EstimatorJob:
    """What to build: `choices` go to parse_robot; loops_file, parameters_file, sensors_file: paths or '';
    names: pairs of what drivers call joints and what the description does."""

    text: str | bytes
    choices: dict
    loops_file: str = ""
    parameters_file: str = ""
    sensors_file: str = ""
    names: Pairs = ()
    backend: str = "auto"

    def first(self) -> "EstimatorJob":
        """Interpreted it would be too slow to be of use: nothing serves before all is compiled."""
        return self

    def topics_first(self) -> "EstimatorJob":
        """There is nothing but topics."""
        return self

    def make(self) -> EstimatedRobot:
        """The robot, with all its code in the cache. Raises ValueError, KeyError, OSError, CompileError."""
        robot = described_robot(self)
        _refuse_floating(robot)
        sensors = load_sensors(self.sensors_file) if self.sensors_file else ()
        smoothed = Smoothed(robot, sensors, self.backend)
        topics = topics_of(sensor_problem(robot, sensors))
        smoothed.compile()
        closing = build_loop_solver(robot, self.backend) if robot.constrained else None
        return EstimatedRobot(robot, smoothed, topics, closing)


def _refuse_floating(robot):
    for joint in robot.tree.independent_joints:
        if joint.type.is_free:
            raise ValueError(
                f"floating joint {joint.name!r}: the estimator is for robots on a fixed base, all of whose "
                "joints have encoders"
            )
