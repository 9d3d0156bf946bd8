"""The demo: a real robot moves, the node computes its torques, a monitor checks them independently."""
