"""The demo and its robots: a driver moves a robot, the node computes its torques, a monitor verifies them."""

ANIMATED = ("tracking", "quadruped", "humanoid")  # robots of which there is a GIF
