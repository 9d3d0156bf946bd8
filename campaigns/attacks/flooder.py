"""flooder.py KIND SECONDS --ros-args ...: publishes, as fast as it can, what no robot needs."""

import sys
import time

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint


def strangers():
    """Well-formed, of joints that the robot does not have."""
    return JointState, "joint_states", JointState(name=["a", "b"], position=[0.0, 0.0]), 0.0


def wrenches():
    """On a link that the robot does not have."""
    message = WrenchStamped()
    message.header.frame_id = "nowhere"
    message.wrench.force.x = float("nan")
    return WrenchStamped, "dynamics_node/external_wrench", message, 0.0


def references():
    """Of nobody's joints, small."""
    message = JointTrajectory(joint_names=["a"], points=[JointTrajectoryPoint(positions=[0.0])])
    return JointTrajectory, "dynamics_node/reference", message, 0.0


def crowds():
    """Ten thousand joints, seventy times a second."""
    names = [f"x{k}" for k in range(10_000)]
    return JointState, "joint_states", JointState(name=names, position=[0.0] * len(names)), 0.014


def twins():
    """Ten thousand joints, the last of them twice."""
    names = [*(f"x{k}" for k in range(9_999)), "x9998"]
    return JointState, "joint_states", JointState(name=names, position=[0.0] * len(names)), 0.1


KINDS = {kind.__name__: kind for kind in (strangers, wrenches, references, crowds, twins)}


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    rclpy.init(args=sys.argv)
    node = Node("flooder")
    message_type, topic, message, pause = KINDS[kind]()
    publisher = node.create_publisher(message_type, topic, 10)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if kind == "crowds":
            message.name[0] = f"y{count}"  # every message has names of its own
        publisher.publish(message)
        count += 1
        time.sleep(pause)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
