"""Short runs of the campaigns, and their detection of failures."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich", reason="the campaigns' tables: pip install rich")
pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
sys.path.insert(0, str(Path(__file__).parents[2]))

from sensor_msgs.msg import JointState

from campaigns.attacks import ATTACKS, Attack
from campaigns.cores import CoreWait
from campaigns.judge import Judge
from campaigns.node import Campaign
from campaigns.references import Configuration, References
from campaigns.soak import Soak, verdict

QUICK = (
    "malformed references",
    "malformed odometry",
    "requests of every kind at once",
    "payloads on and off",
)
PANDA = Configuration("panda")


def test_quick_attacks():
    campaign = Campaign(seed=1, names=QUICK)
    for draw in range(len(QUICK)):
        campaign.run(draw)
    assert campaign.close(), [outcome.words for outcome in campaign.outcomes]
    assert all(outcome.torques for outcome in campaign.outcomes)


def test_a_short_soak():
    soak = Soak(seed=1, rate=500.0)
    soak.run(3.0, minute=0.0)  # a row after every change, of any duration
    assert not soak.failures  # a busy machine has time for few torques
    assert soak.totals["torques"] and len(soak.rows) >= 2


def _kill_node(target, random):
    target.client.node.create_publisher(JointState, "dynamics_node/joint_torques", 10).publish(
        JointState(name=["panda_joint1"], effort=[1.0])
    )
    target.until(lambda: target.watch.peek().counts.get("wrong"), 100, "the impostor's torque")
    os.kill(target.pid, signal.SIGKILL)
    target.process.process.wait()


def test_a_dead_node_and_a_wrong_torque_are_detected(monkeypatch):
    monkeypatch.setitem(ATTACKS, "kill", Attack("kill", _kill_node, None, False, (0,)))
    campaign = Campaign(seed=1, names=["kill"])
    campaign.run(0)
    assert not campaign.close()
    assert campaign.outcomes[0].failures == {"dead": 1, "wrong": 1}


@pytest.fixture(scope="module")
def references():
    return References()


@pytest.fixture
def judge(references):
    made = Judge(references, timeout=0.3)
    made.allowed = {PANDA, Configuration("ur5")}
    return made


def sent(judge, references, age=0.01, stamp=10**18):
    """Stamp, names, torques and publication time of a state."""
    judge.sent(stamp, stamp)
    reference = references.of[PANDA]
    position, velocity = (values[references.index[PANDA]] for values in references.motion(stamp))
    return stamp, list(reference.names), reference.torque(position, velocity), stamp + int(age * 1e9)


def test_a_right_torque_passes(judge, references):
    assert judge.torque(*sent(judge, references))
    assert judge.counts == {"torques": 1, "right": 1, PANDA: 1}
    assert judge.percentile(50) == pytest.approx(0.01, abs=1e-4)


@pytest.mark.parametrize("change", [1e-7, np.nan])
def test_a_wrong_torque_is_detected(judge, references, change):
    stamp, names, torque, published = sent(judge, references)
    torque[1] += change * np.abs(torque).max()
    assert not judge.torque(stamp, names, torque, published)
    assert judge.counts["wrong"] == 1 and "panda" in judge.findings[0].what


def test_torques_of_another_robot_are_wrong(judge, references):
    judge.allowed = {Configuration("panda", loaded=True)}
    assert not judge.torque(*sent(judge, references))
    judge.allowed = set()
    assert not judge.torque(*sent(judge, references))
    assert judge.counts["wrong"] == 2


def test_a_torque_of_old_input_is_stale(judge, references):
    assert judge.torque(*sent(judge, references, age=0.31))
    assert judge.counts["stale"] == 1 and "0.310 s old" in judge.findings[0].what
    assert judge.torque(*sent(judge, references, age=0.29))
    assert judge.counts["stale"] == 1


def test_gravity_torques_are_right_only_if_enabled(judge, references):
    stamp, names, _, published = sent(judge, references, age=5.0)
    reference, index = references.of[PANDA], references.index[PANDA]
    position = references.motion(stamp)[0][index]
    torque = reference.torque(position, np.zeros(len(position)))
    assert not judge.torque(stamp, names, torque, published)
    assert judge.counts["wrong"] == judge.counts["stale"] == 1
    judge.allowed = {PANDA, PANDA._replace(at_rest=True)}
    assert judge.torque(stamp, names, torque, published)
    assert judge.counts["wrong"] == judge.counts["stale"] == 1


def test_time_without_a_core_is_not_an_age(references):
    judge = Judge(references, timeout=0.3, waited=lambda begin, end: 0.1)
    judge.allowed = {PANDA}
    assert judge.torque(*sent(judge, references, age=0.35))
    assert not judge.counts["stale"]
    assert judge.torque(*sent(judge, references, age=0.45))
    assert judge.counts["stale"] == 1


def test_waiting_between_two_times():
    waiting = CoreWait("nobody")
    waiting.look()
    assert waiting.between(0, 10**19) == 0.0
    waiting.times, waiting.waited = [10, 20, 30, 40], [0, 10**9, 10**9, 3 * 10**9]
    assert waiting.between(12, 18) == 1.0
    assert waiting.between(21, 25) == 0.0
    assert waiting.between(0, 100) == 3.0


@pytest.fixture
def soak():
    """A run without measurements."""
    made = Soak.__new__(Soak)
    made.failures, made.totals, made.memory = [], {"torques": 1, "states": 1}, []
    return made


def test_torques_for_few_of_the_states_are_detected(soak):
    soak.totals = {"torques": 20, "states": 100}
    assert not verdict(soak)
    soak.totals["torques"] = 19
    assert verdict(soak) == ["19 torques for 100 states"]


def test_growing_memory_is_detected(soak):
    soak.memory = [(float(t), 90.0 + 0.003 * t) for t in range(0, 1200, 2)]
    (reason,) = verdict(soak)
    assert reason == "memory grows by 1.8 MB in 10 minutes"
    soak.memory = [(float(t), 90.0 + min(t, 300)) for t in range(0, 1200, 2)]
    assert not verdict(soak)
