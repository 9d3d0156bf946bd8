"""Decisions of the nodes: torques, or the reason for no output. Without ROS."""
