"""The demo and its robots: a driver moves a robot, the node computes its torques, a monitor verifies them."""
