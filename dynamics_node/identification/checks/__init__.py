"""Checks of recordings before parameters are fitted, and of torques against a common set of parameters."""
