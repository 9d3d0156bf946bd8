"""The ROS 2 node. rclpy and messages are seen by main, ros_node, messages, parameters, services and
diagnostics alone; core and what it is made of know nothing of ROS."""
