"""Robots with their functions, built in processes beside the node. Without ROS."""
