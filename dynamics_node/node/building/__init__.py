"""Functions built in processes beside the node, and the robot that is served. Without ROS."""
