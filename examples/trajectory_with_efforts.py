"""
A trajectory with efforts
=========================

Add feed-forward efforts to a planner's trajectory and send it to joint_trajectory_controller.

    python3 examples/trajectory_with_efforts.py trajectory.yaml --ros-args \\
        -r joint_trajectory:=/joint_trajectory_controller/joint_trajectory

trajectory.yaml is the message, as ``ros2 topic pub`` and ``dynamics check`` take it::

    joint_names: [joint1, joint2]
    points:
      - {time_from_start: {sec: 0}, positions: [0.0, 0.0], velocities: [0.0, 0.0], accelerations: [1.0, 0.5]}
      - {time_from_start: {sec: 0, nanosec: 100000000}, ...}
"""
# sphinx_gallery_thumbnail_path = 'figures/checked_trajectory.png'

import sys
from pathlib import Path

import rclpy
import yaml
from builtin_interfaces.msg import Duration as DurationMessage
from builtin_interfaces.msg import Time
from dynamics_interfaces.srv import InverseDynamics
from rclpy.duration import Duration
from rclpy.utilities import remove_ros_args
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

PATIENCE = Duration(seconds=10)  # for a subscription
FIELDS = ("positions", "velocities", "accelerations")


def read_trajectory(text):
    """JointTrajectory of the YAML above."""
    content = yaml.safe_load(text)
    points = []
    for entry in content["points"]:
        if unknown := entry.keys() - {"time_from_start", "effort", *FIELDS}:
            raise SystemExit(f"unknown fields of a point: {', '.join(unknown)}")
        values = {field: [float(x) for x in entry.get(field, ())] for field in FIELDS}
        time = DurationMessage(**entry["time_from_start"])
        points.append(JointTrajectoryPoint(time_from_start=time, **values))
    return JointTrajectory(joint_names=content["joint_names"], points=points)


def with_efforts(node, trajectory):
    """The same trajectory with its efforts, to be started immediately."""
    client = node.create_client(InverseDynamics, "dynamics_node/inverse_dynamics")
    if not client.wait_for_service(timeout_sec=5.0):
        raise SystemExit("no dynamics_node answers; start one: ros2 launch dynamics_node dynamics.launch.py")
    request = InverseDynamics.Request(points=trajectory)
    first = trajectory.points[0]  # its start replaces the measured state
    request.state.joints.name = trajectory.joint_names
    request.state.joints.position, request.state.joints.velocity = first.positions, first.velocities
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future)
    answer = future.result()
    if not answer.success:
        raise SystemExit(answer.message)
    answer.solution.header.stamp = Time()  # 0: the controller starts it when it arrives
    return answer.solution


def wait_for_subscription(node, publisher):
    """Return when the controller subscribes; exit with a message if it does not within PATIENCE."""
    end = node.get_clock().now() + PATIENCE
    while not publisher.get_subscription_count():
        if node.get_clock().now() > end:
            seconds = PATIENCE.nanoseconds // 10**9
            raise SystemExit(
                f"no subscription of {publisher.topic_name} in {seconds} s; start the controller, or remap "
                "joint_trajectory to its topic"
            )
        rclpy.spin_once(node, timeout_sec=0.1)


def main():
    rclpy.init()
    node = rclpy.create_node("trajectory_with_efforts")
    publisher = node.create_publisher(JointTrajectory, "joint_trajectory", 1)
    (path,) = remove_ros_args(sys.argv)[1:]
    trajectory = with_efforts(node, read_trajectory(Path(path).read_text()))
    wait_for_subscription(node, publisher)
    publisher.publish(trajectory)
    publisher.wait_for_all_acked(Duration(seconds=1))
    print(f"{len(trajectory.points)} points with efforts of {', '.join(trajectory.joint_names)}")
    rclpy.shutdown()


if __name__ == "__main__":
    main()
