"""A driver with other names: the silent node proposes the pair; with it every topic and service has the driver's."""

import numpy as np
from dynamics_interfaces.srv import GetMassMatrix
from rig import efforts, floats, point
from tolerances import EXACT, error


def test_a_pair_is_proposed_then_set(rig, panda):
    theirs = [name.replace("panda", "fer") for name in panda.names]
    r = rig()
    r.diagnostic(
        lambda s: s.message.endswith("joint_names.from ['fer_*'] and joint_names.to ['panda_*'] pair them"),
        send=lambda: r.send_state(theirs, panda.q, panda.qd),
    )
    pair = {"joint_names.from": ["fer_*"], "joint_names.to": ["panda_*"], "joints": theirs}
    done, reason = r.set_parameters(**pair, command_joints=theirs[:2])
    assert done, reason
    answer = r.answered(theirs, panda.q, panda.qd)
    assert list(answer.name) == theirs and error(efforts(answer, theirs), panda.torque()) <= EXACT

    def accelerated():
        r.send_reference(theirs, point(qdd=panda.qdd))
        answer = r.answered(theirs, panda.q, panda.qd)
        return error(efforts(answer, theirs), panda.torque(qdd=panda.qdd)) <= EXACT

    r.until(accelerated)
    request = GetMassMatrix.Request()
    request.state.joints.name, request.state.joints.position = theirs, floats(panda.q)
    reply = r.call(GetMassMatrix, "get_mass_matrix", request)
    assert reply.success and list(reply.mass_matrix.col_names) == theirs, reply.message
    assert error(np.array(reply.mass_matrix.data), panda.oracle.mass_matrix(panda.q).ravel()) <= EXACT
