"""The ROS nodes: state, building and core decide without ROS; topics, parameters and executor are in ros."""
