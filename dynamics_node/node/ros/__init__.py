"""rclpy around it: topics, parameters, executor."""
