"""demo_motion: the robot of a demo on topics.

tracking: a Panda in MuJoCo follows a trajectory; five_bar: a linkage that follows its reference exactly;
touched: a Panda in MuJoCo under external forces, whose torques are on demo/pushes, for the monitor only;
quadruped, humanoid: a Solo12 or a Talos in MuJoCo on its feet.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo import legged_robots
from dynamics_demo.legged_plant import LeggedPlant
from dynamics_demo.oracles import FiveBarOracle
from dynamics_demo.panda import PANDA_JOINTS, description
from dynamics_demo.pushed_arm import STEP, PushedArm
from dynamics_demo.robots import UPRIGHT, five_bar
from dynamics_demo.tracked_arm import SECONDS, described
from dynamics_demo.tracking import Plant
from dynamics_node.node.ros.messages import doubles, point_message
from dynamics_node.node.ros.running import run, start_rclpy

RATE = 500.0  # Hz
ROBOTS = ("tracking", "five_bar", "touched", *legged_robots.ROBOTS)


class DemoRobot(NamedTuple):
    """joints: actuated and reported joints, each at center + amplitude sin(omega t), rad and rad/s; urdf:
    returns the text; oracle: creates the independent computation from the text."""

    title: str
    joints: tuple[str, ...]
    center: np.ndarray
    amplitude: np.ndarray
    omega: np.ndarray
    urdf: Callable[[], str]
    oracle: Callable[[str], Any]

    def motion(self, t):
        """q, qd, qdd (n,) at time t (s)."""
        phase = self.omega * t
        wave = self.amplitude * np.sin(phase)
        return self.center + wave, self.amplitude * self.omega * np.cos(phase), -(self.omega**2) * wave

    def acceleration_at(self, q):
        """qdd (n,) of the motion at q."""
        return -(self.omega**2) * (q - self.center)

    def acceleration_tolerance(self, delay):
        """Tolerance of the acceleration if the reference is `delay` seconds older than the state."""
        return self.amplitude * self.omega**3 * delay + 1e-9


FIVE_BAR = DemoRobot(
    "Five-bar",
    ("j1", "j2"),
    np.array([1.9, 1.2]),
    np.array([0.3, 0.3]),
    2 * np.pi * np.array([0.5, 0.35]),
    lambda: five_bar(UPRIGHT),
    FiveBarOracle,
)


class Motion(Node):
    """The driver of a robot that follows its reference exactly. It publishes robot_description once, and the
    states of the actuated joints and the reference RATE times a second."""

    def __init__(self, robot):
        super().__init__("demo_motion")
        self._robot = robot
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._description = self.create_publisher(String, "robot_description", latched)
        self._description.publish(String(data=robot.urdf()))
        self._states = self.create_publisher(JointState, "joint_states", 10)
        self._reference = self.create_publisher(JointTrajectory, "dynamics_node/reference", 10)
        self._start = time.monotonic()
        self.create_timer(1.0 / RATE, self._tick)

    def _tick(self):
        q, qd, qdd = self._robot.motion(time.monotonic() - self._start)
        joints = self._robot.joints
        stamp = self.get_clock().now().to_msg()
        reference = JointTrajectory(joint_names=joints, points=[point_message(q, qd, qdd, ())])
        state = JointState(name=joints, position=doubles(q), velocity=doubles(qd))
        reference.header.stamp = state.header.stamp = stamp
        self._reference.publish(reference)
        self._states.publish(state)


class Touched(Node):
    """One simulation step per timer tick. Stamps are simulated time, so a loaded machine slows the robot down
    but does not cause errors."""

    def __init__(self, urdf):
        super().__init__("demo_touched")
        self._arm, self._start = PushedArm(urdf), time.time_ns()
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._description = self.create_publisher(String, "robot_description", latched)
        self._description.publish(String(data=urdf))
        self._states = self.create_publisher(JointState, "joint_states", 10)
        self._pushes = self.create_publisher(JointState, "demo/pushes", 50)
        self.create_timer(STEP, self._tick)

    def _tick(self):
        sample = self._arm.step()
        state = JointState(
            name=PANDA_JOINTS,
            position=doubles(sample.q),
            velocity=doubles(sample.qd),
            effort=doubles(sample.tau),
        )
        pushed = JointState(name=PANDA_JOINTS, effort=doubles(sample.pushed))
        stamp = self._start + round(sample.time * 1e9)
        state.header.stamp.sec, state.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
        pushed.header.stamp = state.header.stamp
        self._pushes.publish(pushed)
        self._states.publish(state)


def main(arguments=None):
    """Exit code 0: terminated by a signal; 2: a package is missing."""
    parser = argparse.ArgumentParser(prog="demo_motion", description=__doc__)
    parser.add_argument("--robot", choices=ROBOTS, default="tracking")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="duration of a motion that ends, s")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(remove_ros_args(["", *given])[1:])
    legged = legged_robots.ROBOTS.get(options.robot)
    if legged is not None and options.seconds < legged.least_seconds:
        parser.error(f"--seconds must be at least {legged.least_seconds:g} for {options.robot}")
    stop = start_rclpy(given)
    try:
        node = (
            LeggedPlant(legged, options.seconds)
            if legged is not None
            else {
                "tracking": lambda: Plant(described(), options.seconds),
                "five_bar": lambda: Motion(FIVE_BAR),
                "touched": lambda: Touched(description()),
            }[options.robot]()
        )
    except (ImportError, FileNotFoundError) as error:
        print(f"demo_motion: {error}", file=sys.stderr)
        return 2
    run(node, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
