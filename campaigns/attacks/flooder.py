"""flooder.py KIND SECONDS --ros-args ...: publishes useless messages at the highest rate."""

import sys
import time

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint


def unknown_joints():
    """Valid joint states of unknown joints."""
    return JointState, "joint_states", JointState(name=["a", "b"], position=[0.0, 0.0]), 0.0


def wrenches():
    """Wrenches on an unknown link."""
    message = WrenchStamped()
    message.header.frame_id = "nowhere"
    message.wrench.force.x = float("nan")
    return WrenchStamped, "dynamics_node/external_wrench", message, 0.0


def references():
    """Small references of unknown joints."""
    message = JointTrajectory(joint_names=["a"], points=[JointTrajectoryPoint(positions=[0.0])])
    return JointTrajectory, "dynamics_node/reference", message, 0.0


def many_names():
    """Ten thousand joints, at 70 Hz."""
    names = [f"x{k}" for k in range(10_000)]
    return JointState, "joint_states", JointState(name=names, position=[0.0] * len(names)), 0.014


def duplicate_name():
    """Ten thousand joints, the last of them twice."""
    names = [*(f"x{k}" for k in range(9_999)), "x9998"]
    return JointState, "joint_states", JointState(name=names, position=[0.0] * len(names)), 0.1


KINDS = {kind.__name__: kind for kind in (unknown_joints, wrenches, references, many_names, duplicate_name)}


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    rclpy.init(args=sys.argv)
    node = Node("flooder")
    message_type, topic, message, pause = KINDS[kind]()
    publisher = node.create_publisher(message_type, topic, 10)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if kind == "many_names":
            message.name[0] = f"y{count}"  # every message has different names
        publisher.publish(message)
        count += 1
        time.sleep(pause)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
