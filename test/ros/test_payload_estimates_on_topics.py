"""What a link carries, over real topics: start, move, compute, apply; and what is refused."""

import time

import numpy as np
import pytest
from carrying import COM, HAND, MASS, MOMENTS, motion, rubbing, torques
from dynamics_interfaces.srv import EstimatePayload
from rig import Rig, efforts
from robots import PANDA_JOINTS, ROBOTS
from tolerances import error

NAMES = list(PANDA_JOINTS)
TIME = np.arange(0.0, 6.0, 0.02)
COUNTED = 100  # states, of 300 that are sent: what comes while another waits is merged with it


@pytest.fixture(scope="module")
def served():
    """A Panda, compiled: interpreted states would come too late on a busy machine."""
    made = Rig(ROBOTS["panda7"], {"backend": "c", "joint_state_timeout": 60.0}).serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def moved():
    """q, qd and torques with the payload, friction included."""
    states = motion(1, time=TIME)
    return *states[:2], torques(*states) + rubbing(states[1])


def ask(served, command, link=HAND):
    request = EstimatePayload.Request(command=command, link=link)
    return served.call(EstimatePayload, "estimate_payload", request)


def send(served, q, qd, tau=None):
    """States 20 ms apart, by their stamps."""
    begin = max(served.next_stamp(), time.time_ns())
    for k in range(len(q)):
        effort = () if tau is None else tau[k]
        served.send_state(NAMES, q[k], qd[k], effort, stamp=begin + 20_000_000 * k)
        served.spin(0.004)
    served.stamp = begin + 20_000_000 * len(q)


def started(served, link=HAND):
    """Until states count: what is built takes its time."""
    answer = ask(served, "start", link)
    assert answer.success and answer.message.startswith(f"{link}: states count"), answer.message
    told = f"{link}: 0 states"
    served.diagnostic(lambda s: any(v.value.startswith(told) for v in s.values))


def test_start_move_compute_apply(served, moved):
    q, qd, tau = moved
    assert "nothing was started: name a link" in ask(served, "compute", "").message
    started(served)
    assert f"no state of '{HAND}' counts yet" in ask(served, "compute").message
    found = None
    while found is None or found.samples < COUNTED:
        send(served, *moved)
        found = ask(served, "compute", "")
        assert found.success, found.message
    assert found.message.startswith(f"{HAND}: 1.") and found.not_excited == []
    c, i = found.inertia.com, found.inertia
    assert found.inertia.m == pytest.approx(MASS, abs=0.02) and 0 < found.mass_std < 0.02
    assert (c.x, c.y, c.z) == pytest.approx(tuple(COM), abs=5e-3) and 0 < found.com_std.z < 5e-3
    assert (i.ixx, i.ixy, i.iyy) == pytest.approx((MOMENTS[0, 0], MOMENTS[0, 1], MOMENTS[1, 1]), abs=0.01)
    covariance = np.array(found.covariance).reshape(10, 10)
    assert np.linalg.eigvalsh(covariance)[0] > 0 and np.sqrt(covariance[0, 0]) == found.mass_std
    assert 1 <= found.condition < 20

    still, zero = q[:1], np.zeros((1, 7))
    before = efforts(served.answered(NAMES, q[0], zero[0]), NAMES)
    assert error(before, torques(still, zero, zero, payload=False)[0]) <= 1e-9, "compute sets nothing"
    applied = ask(served, "apply", "")
    assert applied.success and applied.message.startswith(f"payloads: {HAND} 1.")
    after = efforts(served.answered(NAMES, q[0], zero[0]), NAMES)
    assert error(after, torques(still, zero, zero)[0]) <= 0.01 and np.abs(after - before).max() > 1
    _, values, _ = served.diagnostic(lambda s: any(v.key == "payloads" and v.value for v in s.values))
    assert values["payload estimation"].startswith(f"{HAND}: ") and "states" in values["payload estimation"]
    send(served, *moved)
    again = ask(served, "compute", "")
    assert again.samples > found.samples and again.inertia.m == pytest.approx(MASS, abs=0.02)
    send(served, *(part[:30] for part in moved[:2]))
    silent = ask(served, "compute", "")
    assert silent.success and silent.samples >= again.samples
    assert "; states do not count now: no effort in joint_states for panda_joint1" in silent.message
    assert ask(served, "stop").message == f"stopped, {silent.samples} states count"
    send(served, *(part[:50] for part in moved))
    stopped = ask(served, "compute", HAND)
    assert stopped.samples == silent.samples and "do not count now" not in stopped.message


def test_an_arm_at_rest_is_not_believed(served, moved):
    q, _, tau = moved
    started(served)
    still, zero = np.tile(q[0], (40, 1)), np.zeros((40, 7))
    weight = torques(still[:1], zero[:1], zero[:1])
    send(served, still, zero, weight + 0.1 * np.random.default_rng(0).normal(size=zero.shape))
    found = ask(served, "compute", "")
    assert found.success and "apply would refuse: not excited enough: mass is not excited" in found.message
    assert len(found.not_excited) == 10 and found.condition == np.inf
    refused = ask(served, "apply", "")
    assert not refused.success and refused.message.startswith("not applied: not excited enough: mass")


@pytest.mark.parametrize(
    "command, link, told",
    [
        ("dance", HAND, "unknown command 'dance': start, compute, apply or stop"),
        ("start", "tool9", "unknown link 'tool9'; the robot has: panda_hand"),
        ("start", "panda_link0", "fixed to the root: no joint torque depends"),
        ("compute", "tool9\x1b[31m", r"nothing was started at 'tool9\x1b[31m', but at 'panda_hand'"),
        ("start", "x" * 5000, "unknown link 'xxx"),
    ],
)
def test_what_is_refused(served, command, link, told):
    started(served)
    answer = ask(served, command, link)
    assert not answer.success and told in answer.message, answer.message
    assert answer.inertia.m == 0 and not answer.covariance and len(answer.message) < 600


def test_states_without_efforts_are_named(served, moved):
    started(served)
    q, qd, _ = moved
    send(served, q[:30], qd[:30])
    refused = ask(served, "compute", "")
    assert not refused.success and "no effort in joint_states for panda_joint1" in refused.message


def test_another_description_ends_it(rig, moved):
    """The parameter begins it; a robot of the same joints with other numbers is another one."""
    parameters = {"backend": "c", "joint_state_timeout": 60.0, "payload_estimation.link": HAND}
    r = rig(parameters=parameters).serving()
    r.diagnostic(lambda s: any(v.value == f"{HAND}: 0 states" for v in s.values))
    while ask(r, "compute", "").samples < COUNTED:
        send(r, *moved)
    text = ROBOTS["panda7"].file.read_text()
    r.describe(text.replace('mass value="0.73"', 'mass value="0.9"'))
    told = "states, stopped; the robot was built anew with other numbers: start again"
    r.diagnostic(lambda s: any(v.value.endswith(told) for v in s.values))
    kept = ask(r, "compute", "")
    assert kept.success and kept.inertia.m == pytest.approx(MASS, abs=0.02)
    started(r)
