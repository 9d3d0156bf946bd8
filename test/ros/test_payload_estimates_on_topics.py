"""Payload estimation on topics: start, move, compute, apply, and invalid requests."""

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
SAMPLES = 100  # of 300 sent states: waiting states are merged


@pytest.fixture(scope="module")
def served():
    """A compiled Panda: the interpreter would be too slow on a busy machine."""
    made = Rig(ROBOTS["panda7"], {"backend": "c", "joint_state_timeout": 60.0}).serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def recording():
    """q, qd and torques with the payload, friction included."""
    states = motion(1, time=TIME)
    return *states[:2], torques(*states) + rubbing(states[1])


def call(served, command, link=HAND):
    return served.ask(EstimatePayload, command=command, link=link)


def send(served, q, qd, tau=None):
    """Send states with stamps 20 ms apart."""
    begin = max(served.next_stamp(), time.time_ns())
    for k in range(len(q)):
        effort = () if tau is None else tau[k]
        served.send_state(NAMES, q[k], qd[k], effort, stamp=begin + 20_000_000 * k)
        served.spin(0.004)
    served.stamp = begin + 20_000_000 * len(q)


def start(served, link=HAND):
    """Start an estimation and wait for its build."""
    answer = call(served, "start", link)
    assert answer.success and answer.message.startswith(f"{link}: estimation start"), answer.message
    expected = f"{link}: 0 samples"
    served.diagnostic(lambda s: any(v.value.startswith(expected) for v in s.values))


def test_start_move_compute_apply(served, recording):
    q, qd, tau = recording
    assert "no estimation was started: name a link" in call(served, "compute", "").message
    start(served)
    assert f"no samples of '{HAND}' yet" in call(served, "compute").message
    estimate = None
    while estimate is None or estimate.samples < SAMPLES:
        send(served, *recording)
        estimate = call(served, "compute", "")
        assert estimate.success, estimate.message
    assert estimate.message.startswith(f"{HAND}: 1.") and estimate.not_excited == []
    c, i = estimate.inertia.com, estimate.inertia
    assert estimate.inertia.m == pytest.approx(MASS, abs=0.02) and 0 < estimate.mass_std < 0.02
    assert (c.x, c.y, c.z) == pytest.approx(tuple(COM), abs=5e-3) and 0 < estimate.com_std.z < 5e-3
    assert (i.ixx, i.ixy, i.iyy) == pytest.approx((MOMENTS[0, 0], MOMENTS[0, 1], MOMENTS[1, 1]), abs=0.01)
    covariance = np.array(estimate.covariance).reshape(10, 10)
    assert np.linalg.eigvalsh(covariance)[0] > 0 and np.sqrt(covariance[0, 0]) == estimate.mass_std
    assert 1 <= estimate.condition < 20

    still, zero = q[:1], np.zeros((1, 7))
    before = efforts(served.answered(NAMES, q[0], zero[0]), NAMES)
    assert error(before, torques(still, zero, zero, payload=False)[0]) <= 1e-9, "compute sets no payload"
    applied = call(served, "apply", "")
    assert applied.success and applied.message.startswith(f"payloads: {HAND} 1.")
    after = efforts(served.answered(NAMES, q[0], zero[0]), NAMES)
    assert error(after, torques(still, zero, zero)[0]) <= 0.01 and np.abs(after - before).max() > 1
    _, values, _ = served.diagnostic(lambda s: any(v.key == "payloads" and v.value for v in s.values))
    assert values["payload estimation"].startswith(f"{HAND}: ") and "samples" in values["payload estimation"]
    send(served, *recording)
    later = call(served, "compute", "")
    assert later.samples > estimate.samples and later.inertia.m == pytest.approx(MASS, abs=0.02)
    send(served, *(part[:30] for part in recording[:2]))
    incomplete = call(served, "compute", "")
    assert incomplete.success and incomplete.samples >= later.samples
    assert "; new states are skipped: no effort in joint_states for panda_joint1" in incomplete.message
    assert call(served, "stop").message == f"stopped with {incomplete.samples} samples"
    send(served, *(part[:50] for part in recording))
    stopped = call(served, "compute", HAND)
    assert stopped.samples == incomplete.samples and "skipped" not in stopped.message


def test_an_arm_at_rest_is_not_excited(served, recording):
    q, _, tau = recording
    start(served)
    still, zero = np.tile(q[0], (40, 1)), np.zeros((40, 7))
    weight = torques(still[:1], zero[:1], zero[:1])
    send(served, still, zero, weight + 0.1 * np.random.default_rng(0).normal(size=zero.shape))
    estimate = call(served, "compute", "")
    assert (
        estimate.success and "cannot be applied: not excited enough: mass is not excited" in estimate.message
    )
    assert len(estimate.not_excited) == 10 and estimate.condition == np.inf
    reply = call(served, "apply", "")
    assert not reply.success and reply.message.startswith("not applied: not excited enough: mass")


@pytest.mark.parametrize(
    "command, link, expected",
    [
        ("dance", HAND, "unknown command 'dance'; known: start, compute, apply, stop"),
        ("start", "tool9", "unknown link 'tool9'; the robot has: panda_hand"),
        ("start", "panda_link0", "fixed to the root: no joint torque depends"),
        ("compute", "tool9\x1b[31m", r"no estimation was started at 'tool9\x1b[31m', only at 'panda_hand'"),
        ("start", "x" * 5000, "unknown link 'xxx"),
    ],
)
def test_invalid_requests_are_rejected(served, command, link, expected):
    start(served)
    answer = call(served, command, link)
    assert not answer.success and expected in answer.message, answer.message
    assert answer.inertia.m == 0 and not answer.covariance and len(answer.message) < 600


def test_missing_efforts_are_named(served, recording):
    start(served)
    q, qd, _ = recording
    send(served, q[:30], qd[:30])
    reply = call(served, "compute", "")
    assert not reply.success and "no effort in joint_states for panda_joint1" in reply.message


def test_another_description_stops_the_estimation(rig, recording):
    """The parameter starts it; a robot with the same joints and other parameters stops it."""
    parameters = {"backend": "c", "joint_state_timeout": 60.0, "payload_estimation.link": HAND}
    r = rig(parameters=parameters).serving()
    r.diagnostic(lambda s: any(v.value == f"{HAND}: 0 samples" for v in s.values))
    while call(r, "compute", "").samples < SAMPLES:
        send(r, *recording)
    text = ROBOTS["panda7"].file.read_text()
    r.describe(text.replace('mass value="0.73"', 'mass value="0.9"'))
    expected = "samples, stopped; the robot was rebuilt with other parameters: start again"
    r.diagnostic(lambda s: any(v.value.endswith(expected) for v in s.values))
    reply = call(r, "compute", "")
    assert reply.success and reply.inertia.m == pytest.approx(MASS, abs=0.02)
    start(r)
