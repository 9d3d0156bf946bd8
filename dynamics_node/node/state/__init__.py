"""What the node knows at the moment: joints, base, environment, reference. Without ROS."""
