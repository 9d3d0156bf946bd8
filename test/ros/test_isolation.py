"""Tests are isolated from other test runs and rigs, even in the same domain."""

import socket
from contextlib import closing

import domains
import pytest
from domains import Domain, fresh_domain
from rig import efforts
from tolerances import EXACT, error


def test_a_domain_is_claimed_once():
    domain = fresh_domain()
    assert not domains.claimed(domain.number)
    assert fresh_domain().number != domain.number


@pytest.mark.parametrize("offset", [0, 10, 16], ids=["discovery", "first participant", "fourth"])
def test_a_domain_in_use_is_not_claimed(offset):
    number = fresh_domain().number
    while domains.claims:
        domains.claims.pop().close()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as foreign:
        foreign.bind(("127.0.0.1", domains.port_of(number, offset)))
        assert not domains.claimed(number)
    with closing(domains.claimed(number)) as claim:
        assert claim


def test_a_node_marks_its_domain_as_in_use(rig):
    r = rig(None)
    r.until(lambda: "dynamics_node" in r.neighbours())
    while domains.claims:
        domains.claims.pop().close()
    assert not domains.claimed(r.domain.number)


def test_rigs_in_one_domain_are_isolated(rig, panda, case):
    """Regression: a Panda with moving fingers answered states of another one, with errors of 1e-7."""
    whole = case("panda")
    a = rig("panda7")
    b = rig("panda", domain=Domain(a.domain.number, "neighbour"))
    fingers = ([*panda.q, 0.0145], [*panda.qd, 0.0078])
    b.answered(whole.names, *fingers)
    a.answered(panda.names, panda.q, panda.qd)
    a.torque_log.clear()
    b.torque_log.clear()

    def both():
        b.send_state(whole.names, *fingers)
        a.send_state(panda.names, panda.q, panda.qd)
        a.spin(0.01)
        b.spin(0.01)
        return min(len(a.torque_log), len(b.torque_log)) >= 20

    a.until(both, what="torques of both")
    assert all(tuple(message.name) == whole.names for message in b.torque_log)
    assert all(tuple(message.name) == panda.names for message in a.torque_log)
    assert all(error(efforts(message, panda.names), panda.torque()) <= EXACT for message in a.torque_log)
    assert sorted(a.neighbours()) == sorted(b.neighbours()) == ["client", "dynamics_node"]
    _, values, _ = b.diagnostic()
    assert values["algorithm"]
    assert {status.name for status in b.diagnostics} == {"neighbour/dynamics_node: dynamics"}
