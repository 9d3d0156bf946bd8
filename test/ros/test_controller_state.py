"""The reference of a controller, if control_msgs is installed; otherwise see test_messages_in."""

import importlib.util

import numpy as np
import pytest
from rig import efforts, floats
from tolerances import EXACT, error

TOPIC = "arm_controller/controller_state"
INSTALLED = importlib.util.find_spec("control_msgs") is not None


@pytest.mark.skipif(not INSTALLED, reason="control_msgs: sudo apt install ros-jazzy-control-msgs")
def test_reference_of_a_controller(rig, panda):
    from control_msgs.msg import JointTrajectoryControllerState

    r = rig(parameters={"controller_state_topic": TOPIC, "reference_timeout": 0.3})
    states = r.node.create_publisher(JointTrajectoryControllerState, TOPIC, 10)
    order = np.random.default_rng(0).permutation(7)
    message = JointTrajectoryControllerState(joint_names=[panda.names[k] for k in order])
    message.reference.positions = floats(panda.q[order])
    message.reference.velocities = floats(panda.qd[order])
    message.reference.accelerations = floats(panda.qdd[order])

    def followed():
        states.publish(message)
        r.spin(0.02)
        tau = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
        return error(tau, panda.torque(qdd=panda.qdd)) <= EXACT

    r.until(followed, what="the torque of the controller's accelerations")
    r.spin(0.5)
    tau = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(tau, panda.torque()) <= EXACT, "the reference has timed out"

    message.joint_names[1] = message.joint_names[0]
    states.publish(message)
    _, values, _ = r.diagnostic(lambda s: "listed twice" in str(s))
    assert values["last drop"].startswith("arm_controller/controller_state: joint")
