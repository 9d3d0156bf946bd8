"""Robots: the frozen Robot, and the tree that a Description gives."""

from dynamics_node.model.errors import ModelError, ModelWarning, warned
from dynamics_node.model.robot import Body, Cluster, Frame, Joint, Robot

__all__ = [
    "Body",
    "Cluster",
    "Frame",
    "Joint",
    "ModelError",
    "ModelWarning",
    "Robot",
    "warned",
]
