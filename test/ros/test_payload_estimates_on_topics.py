"""Payload estimation on topics: start, move, compute, apply. For errors, see test/core/node/test_payload_estimation."""

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
    assert "unknown command 'dance'; known: start, " in call(served, "dance").message
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
