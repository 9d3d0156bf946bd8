"""A driver with other joint names: the node suggests the pair; with it all topics and services have driver names."""

import numpy as np
from dynamics_interfaces.srv import GetMassMatrix
from rig import efforts, floats, point
from tolerances import EXACT, error


def test_a_suggested_pair_can_be_set(rig, panda):
    driver_names = [name.replace("panda", "fer") for name in panda.names]
    r = rig()
    r.diagnostic(
        lambda s: s.message.endswith("set joint_names.from ['fer_*'] and joint_names.to ['panda_*']"),
        send=lambda: r.send_state(driver_names, panda.q, panda.qd),
    )
    pair = {"joint_names.from": ["fer_*"], "joint_names.to": ["panda_*"], "joints": driver_names}
    done, reason = r.set_parameters(**pair, command_joints=driver_names[:2])
    assert done, reason
    answer = r.answered(driver_names, panda.q, panda.qd)
    assert list(answer.name) == driver_names and error(efforts(answer, driver_names), panda.torque()) <= EXACT

    def accelerated():
        r.send_reference(driver_names, point(qdd=panda.qdd))
        answer = r.answered(driver_names, panda.q, panda.qd)
        return error(efforts(answer, driver_names), panda.torque(qdd=panda.qdd)) <= EXACT

    r.until(accelerated)
    request = GetMassMatrix.Request()
    request.state.joints.name, request.state.joints.position = driver_names, floats(panda.q)
    reply = r.call(GetMassMatrix, "get_mass_matrix", request)
    assert reply.success and list(reply.mass_matrix.col_names) == driver_names, reply.message
    assert error(np.array(reply.mass_matrix.data), panda.oracle.mass_matrix(panda.q).ravel()) <= EXACT
