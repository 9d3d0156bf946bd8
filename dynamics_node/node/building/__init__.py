"""Robots with their functions, built in separate processes. Without ROS."""
