"""The observer on topics: efforts in; external torques, wrench and contact out."""

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rig import efforts, stamp_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

import dynamics_node as dn

LINK = "panda_hand"
PUSH = np.array([0.1, 0.2, 0.3, 4.0, 5.0, 6.0])  # moment first


def collect_messages(rig, kind, topic):
    messages = []
    rig.node.create_subscription(kind, f"dynamics_node/{topic}", messages.append, 50)
    return messages


def test_an_external_wrench_is_estimated(rig, panda):
    """Compiled: the interpreter would be too slow on a busy machine."""
    r = rig(parameters={"observer.enabled": True, "observer.link": LINK, "backend": "c"})
    torques = collect_messages(r, JointState, "external_torques")
    wrenches = collect_messages(r, WrenchStamped, "external_wrench_estimate")
    contacts = collect_messages(r, Bool, "contact")
    r.serving()
    pushed = (
        dn.evaluate(panda.model, "frame_jacobian", panda.q, link=LINK, reference="body", backend="numpy").T
        @ PUSH
    )
    rest = np.zeros(7)
    effort = dn.evaluate(panda.model, "nonlinear_effects", panda.q, rest, backend="numpy") - pushed
    sent = []

    def send():
        sent.append(r.send_state(panda.names, panda.q, rest, effort))
        r.spin(0.01)

    def all_received():
        send()
        return torques and wrenches and contacts and contacts[-1].data

    r.until(all_received, what="a contact")
    assert stamp_of(torques[-1]) in sent and tuple(torques[-1].name) == panda.names
    assert np.allclose(efforts(torques[-1], panda.names), pushed, atol=1e-6)
    wrench = wrenches[-1]
    assert wrench.header.frame_id == LINK and stamp_of(wrench) in sent
    force, moment = wrench.wrench.force, wrench.wrench.torque
    assert np.allclose([moment.x, moment.y, moment.z, force.x, force.y, force.z], PUSH, atol=1e-6)

    torques.clear()
    status = "no effort in joint_states for panda_joint1"
    message, values, _ = r.diagnostic(
        lambda s: status in s.message, send=lambda: r.send_state(panda.names, panda.q, rest)
    )
    assert message.startswith("no external torques: ") and status in values["no external torques because"]
    assert all(stamp_of(torque) in sent for torque in torques), "of states without efforts"
    assert r.torques, "feed-forward torques go on"
