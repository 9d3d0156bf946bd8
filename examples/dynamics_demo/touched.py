"""demo_touched: simulates an arm that is pushed; publishes robot_description once, joint_states with efforts,
and, for the monitor alone, what the touch exerts at the joints on demo/pushes."""

import argparse
import sys
import time

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.pushed_arm import STEP, PushedArm
from dynamics_demo.simulated_arm import description
from dynamics_node.node.ros.messages import doubles
from dynamics_node.node.ros.running import run, start_rclpy


class Touched(Node):
    """A step of the simulation a tick. Stamps are simulated time from the start on, so that a busy machine
    makes the robot slow, not wrong."""

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
    """0: ended by a signal; 2: something to install is missing."""
    parser = argparse.ArgumentParser(prog="demo_touched", description=__doc__)
    given = sys.argv[1:] if arguments is None else arguments
    parser.parse_args(remove_ros_args(["", *given])[1:])
    stop = start_rclpy(given)
    try:
        node = Touched(description())
    except ImportError as error:
        print(f"demo_touched: {error}", file=sys.stderr)
        return 2
    run(node, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
