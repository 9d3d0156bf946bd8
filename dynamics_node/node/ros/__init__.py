"""The rclpy side of the nodes: topics, parameters, executor."""
