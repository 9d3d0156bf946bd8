"""Current state of the node: joints, base, environment, reference. Without ROS."""
