"""demo_motion: publishes robot_description once, joint_states and the reference at --rate Hz."""

import argparse
import sys
import time
from pathlib import Path

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.demo.robots import ROBOTS
from dynamics_node.node.messages import doubles, point_message
from dynamics_node.node.running import run, start_rclpy


class Motion(Node):
    """The driver of a simulated robot: it is where it is asked to be. It measures the driven joints alone."""

    def __init__(self, robot, urdf, rate):
        super().__init__("demo_motion")
        self._robot = robot
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._description = self.create_publisher(String, "robot_description", latched)
        self._description.publish(String(data=urdf))
        self._states = self.create_publisher(JointState, "joint_states", 10)
        self._reference = self.create_publisher(JointTrajectory, "dynamics_node/reference", 10)
        self._start = time.monotonic()
        self.create_timer(1.0 / rate, self._tick)

    def _tick(self):
        q, qd, qdd = self._robot.motion(time.monotonic() - self._start)
        joints = self._robot.joints
        stamp = self.get_clock().now().to_msg()
        reference = JointTrajectory(joint_names=joints, points=[point_message(q, qd, qdd, ())])
        state = JointState(name=joints, position=doubles(q), velocity=doubles(qd))
        reference.header.stamp = state.header.stamp = stamp
        self._reference.publish(reference)
        self._states.publish(state)


def main(arguments=None):
    """Exit code 0 when ended by a signal."""
    parser = argparse.ArgumentParser(prog="demo_motion", description=__doc__)
    parser.add_argument("--robot", choices=ROBOTS, default="panda")
    parser.add_argument("--urdf", help="robot description; default: the Panda of example-robot-data")
    parser.add_argument("--rate", type=float, default=500.0, help="Hz")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(remove_ros_args(["", *given])[1:])
    robot = ROBOTS[options.robot]
    urdf = Path(options.urdf).read_text() if options.urdf else robot.urdf()
    stop = start_rclpy(given)
    run(Motion(robot, urdf, options.rate), stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
