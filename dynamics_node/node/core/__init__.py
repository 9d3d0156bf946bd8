"""What decides: torques or the reason for none. Without ROS."""
