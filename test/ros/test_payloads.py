"""Payloads through services, against Pinocchio. For wrenches and IMUs, see test_topics and
test/core/node/test_what_acts."""

import numpy as np
import pytest
from dynamics_interfaces.srv import GetMassMatrix, InverseDynamics, SetPayload
from environments import HAND, load
from oracle import Oracle
from payloads import payload
from rig import efforts
from tolerances import EXACT, error


def torque(r, case):
    return efforts(r.answered(case.names, case.q, case.qd), case.names)


def test_a_payload_acts_until_removed(rig, panda):
    oracle = Oracle(panda.robot, panda.model)
    r = rig(parameters={"joint_state_timeout": 60.0, "backend": "auto"})
    r.until(lambda: "(c)" in r.process.output(), what="compiled code")
    assert error(torque(r, panda), panda.torque()) <= EXACT
    response = r.call(SetPayload, "set_payload", payload())
    assert response.success and response.message == f"payloads: {HAND} 1.5 kg"
    load(oracle)
    loaded = oracle.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(loaded, panda.torque()) > 0.05
    assert error(torque(r, panda), loaded) <= EXACT
    tau = r.ask(InverseDynamics).solution.points[0].effort
    assert error(np.array(tau), loaded) <= EXACT
    M = r.ask(GetMassMatrix).mass_matrix
    assert error(np.array(M.data).reshape(7, 7), oracle.mass_matrix(panda.q), tail=2) <= EXACT
    _, values, _ = r.diagnostic(send=lambda: r.send_state(panda.names, panda.q, panda.qd))
    assert values["payloads"] == f"{HAND} 1.5 kg"
    assert r.call(SetPayload, "set_payload", payload(mass=0)).message == "payloads: none"
    assert error(torque(r, panda), panda.torque()) <= EXACT


@pytest.mark.parametrize(
    "change, message",
    [
        ({"link": "tool9"}, "unknown link 'tool9'"),
        ({"mass": -1.0}, "mass -1 is negative"),
        ({"mass": np.nan}, "not finite"),
        ({"com": (np.inf, 0, 0)}, "not finite"),
        ({"moments": np.diag([1.0, 1.0, 3.0])}, "principal moments"),
        ({"moments": np.diag([-1.0, 1.0, 1.0])}, "principal moments"),
        ({"link": "tool9", "mass": 0.0}, "unknown link 'tool9'"),
    ],
)
def test_an_invalid_payload_is_rejected(arm, panda, change, message):
    response = arm.call(SetPayload, "set_payload", payload(**change))
    assert not response.success and message in response.message
    assert error(torque(arm, panda), panda.torque()) <= EXACT
