"""
Behind MoveIt's planner
=======================

Replace the times of MoveIt 2's plans by feasible ones, and send them to joint_trajectory_controller.

    python3 examples/moveit_client.py --ros-args -p method:=time_optimal -p max_effort_rate:=1000.0 \\
        -r joint_trajectory:=/joint_trajectory_controller/joint_trajectory

dynamics_node runs next to it. Every plan that arrives is sent: without the remapping, look at the results on
joint_trajectory first. Parameters:

method
    time_optimal (default), uniform, or check: an infeasible plan is not sent.
source
    display_planned_path (default), which move_group publishes (moveit_msgs), or planned_trajectory: plans as
    trajectory_msgs/JointTrajectory, without moveit_msgs.
sink
    topic (default): joint_trajectory. action: follow_joint_trajectory (control_msgs).
max_effort_rate
    A limit for all joints, N m/s or N/s; 0: none.
"""
# sphinx_gallery_thumbnail_path = 'figures/time_optimal.png'

import rclpy
from builtin_interfaces.msg import Time
from dynamics_interfaces.srv import CheckTrajectory, ScaleTrajectory
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

SOURCES, SINKS = ("display_planned_path", "planned_trajectory"), ("topic", "action")


def of_plan(plan):
    """The JointTrajectory of a moveit_msgs/DisplayTrajectory. Raises ValueError."""
    if len(plan.trajectory) != 1:
        raise ValueError(f"{len(plan.trajectory)} trajectories in one plan: send them one after the other")
    if plan.trajectory[0].multi_dof_joint_trajectory.points:
        raise ValueError("the plan moves a joint of several degrees of freedom, such as a mobile base")
    return plan.trajectory[0].joint_trajectory


def display_trajectory():
    """The type of display_planned_path; exits with a message without moveit_msgs."""
    try:
        from moveit_msgs.msg import DisplayTrajectory
    except ImportError:
        raise SystemExit(
            "display_planned_path needs moveit_msgs: install ros-$ROS_DISTRO-moveit-msgs, or set source to "
            "planned_trajectory"
        ) from None
    return DisplayTrajectory


def action_client(node):
    """The client of follow_joint_trajectory; exits with a message without control_msgs."""
    try:
        from control_msgs.action import FollowJointTrajectory
    except ImportError:
        raise SystemExit(
            "the action needs control_msgs: install ros-$ROS_DISTRO-control-msgs, or set sink to topic"
        ) from None
    from rclpy.action import ActionClient

    return ActionClient(node, FollowJointTrajectory, "follow_joint_trajectory")


class MoveItClient(Node):
    """Plans in, feasible trajectories with efforts out."""

    def __init__(self, **options):
        super().__init__("moveit_client", **options)
        self._method = self.declare_parameter("method", "time_optimal").value
        self._effort_rate = self.declare_parameter("max_effort_rate", 0.0).value
        source = self.declare_parameter("source", SOURCES[0]).value
        sink = self.declare_parameter("sink", SINKS[0]).value
        if source not in SOURCES or sink not in SINKS:
            raise SystemExit(f"source is one of {', '.join(SOURCES)}; sink is one of {', '.join(SINKS)}")
        if self._method == "check":
            self._service = self.create_client(CheckTrajectory, "dynamics_node/check_trajectory")
        else:
            self._service = self.create_client(ScaleTrajectory, "dynamics_node/scale_trajectory")
        if source == "display_planned_path":
            self.create_subscription(display_trajectory(), source, self._plan, 10)
        else:
            self.create_subscription(JointTrajectory, source, self.scale, 10)
        self._action = action_client(self) if sink == "action" else None
        self._topic = self.create_publisher(JointTrajectory, "joint_trajectory", 1)

    def _plan(self, plan):
        try:
            self.scale(of_plan(plan))
        except ValueError as error:
            self._refused(str(error))

    def scale(self, trajectory):
        """Ask for the times of a trajectory; the reply is sent to the controller."""
        if not self._service.service_is_ready():
            self._refused("no dynamics_node answers; start one: ros2 launch dynamics_node dynamics.launch.py")
            return
        request = self._service.srv_type.Request(trajectory=trajectory)
        if self._method != "check":
            request.method = self._method
        if self._effort_rate > 0:
            request.limited_joints = list(trajectory.joint_names)
            request.max_effort_rate = [self._effort_rate] * len(trajectory.joint_names)
        self._service.call_async(request).add_done_callback(self._scaled)

    def _scaled(self, future):
        reply = future.result()
        if not reply.success or (self._method == "check" and not reply.feasible):
            self._refused(reply.message)
            return
        self.get_logger().info(reply.message)
        solution = reply.solution
        solution.header.stamp = Time()  # 0: the controller starts it when it arrives
        if self._action is None:
            self._topic.publish(solution)
        elif self._action.server_is_ready():
            from control_msgs.action import FollowJointTrajectory

            goal = FollowJointTrajectory.Goal(trajectory=solution)
            self._action.send_goal_async(goal).add_done_callback(self._accepted)
        else:
            self._refused("no action server at follow_joint_trajectory; start the controller, or remap it")

    def _accepted(self, future):
        if not future.result().accepted:
            self._refused("the controller rejected the goal")

    def _refused(self, reason):
        self.get_logger().error(f"nothing is sent: {reason}")


def main():
    rclpy.init()
    rclpy.spin(MoveItClient())


if __name__ == "__main__":
    main()
