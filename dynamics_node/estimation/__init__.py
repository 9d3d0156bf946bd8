"""Estimates of external torques, joint rates, tools and payloads from measurements."""

from dynamics_node.estimation.contact_observer import ContactObserver, build_contact_observer
from dynamics_node.estimation.joint_filter import JointFilter
from dynamics_node.estimation.observer import MomentumObserver, build_observer
from dynamics_node.estimation.observer_options import COMPONENTS, ObserverOptions
from dynamics_node.estimation.payload import Payload, identify_payload, require_bearing
from dynamics_node.estimation.payload_estimator import (
    PayloadEstimator,
    PayloadFunctions,
    build_payload_estimator,
    payload_functions,
)
from dynamics_node.estimation.tool import Tool, identify_tool
