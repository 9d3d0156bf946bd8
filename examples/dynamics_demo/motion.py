"""demo_motion: the robot of the demos tracking and five_bar on topics."""

import argparse
import sys
import time

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_demo.panda import FIVE_BAR
from dynamics_demo.tracked_arm import SECONDS, described
from dynamics_demo.tracking import Plant
from dynamics_node.node.ros.messages import doubles, point_message
from dynamics_node.node.ros.running import run, start_rclpy

RATE = 500.0  # Hz


class Motion(Node):
    """The driver of a robot that is where it is asked to be. It publishes robot_description once, and the
    states of the driven joints and the reference RATE times a second."""

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


def main(arguments=None):
    """Exit code 0: ended by a signal; 2: something to install is missing."""
    parser = argparse.ArgumentParser(prog="demo_motion", description=__doc__)
    parser.add_argument("--robot", choices=("tracking", "five_bar"), default="tracking")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="tracking: length of the trajectory")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(remove_ros_args(["", *given])[1:])
    stop = start_rclpy(given)
    try:
        node = Plant(described(), options.seconds) if options.robot == "tracking" else Motion(FIVE_BAR)
    except (ImportError, FileNotFoundError) as error:
        print(f"demo_motion: {error}", file=sys.stderr)
        return 2
    run(node, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
