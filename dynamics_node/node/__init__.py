"""The ROS 2 node. What decides knows nothing of ROS: core and what it is made of, serving, answers. ros_node,
inputs, outputs, messages, parameters and the services join it to rclpy; pyproject.toml keeps both apart."""
