"""The ROS 2 node. rclpy is imported by main, ros_node, messages, parameters, services and diagnostics only."""
