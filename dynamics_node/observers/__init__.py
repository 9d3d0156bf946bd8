"""What pushes on the robot, from what its joints measure, and rates of joints from encoders."""

from dynamics_node.observers.joint_filter import JointFilter
from dynamics_node.observers.observer import MomentumObserver, build_observer
from dynamics_node.observers.options import COMPONENTS, ObserverOptions

__all__ = ["COMPONENTS", "JointFilter", "MomentumObserver", "ObserverOptions", "build_observer"]
