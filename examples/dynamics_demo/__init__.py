"""The demo and its robots: one moves, the node computes its torques, a monitor checks them independently."""
