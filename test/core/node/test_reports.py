"""What people are told: in the diagnostics once a second, in the terminal when a silence lasts."""

from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve

from dynamics_node.node.core.diagnostics import Statistics, report
from dynamics_node.node.errors import SILENCE_AFTER, SILENCE_EVERY, NoOutput, Reminder


def told(reminder, reasons):
    """Numbers of the reports that were told."""
    return [k for k, reason in enumerate(reasons) if reminder.next(reason, "")]


def test_a_silence_that_lasts_is_told_again_and_again():
    reminder = Reminder()
    assert told(reminder, ["no odom"] * 3 * SILENCE_EVERY) == [
        SILENCE_AFTER - 1 + k * SILENCE_EVERY for k in range(3)
    ]


def test_a_short_silence_is_not_told():
    assert not told(Reminder(), ["no odom", ""] * 20)


def test_another_reason_is_told_at_once():
    assert told(Reminder(), ["no odom"] * 4 + ["no imu"] * 3) == [1, 4]


def test_a_remedy_stands_behind_the_reason():
    reminder = Reminder()
    reminder.next("no odom", "publish odom")
    assert reminder.next("no odom", "publish odom") == "silent: no odom; publish odom"


@pytest.fixture
def serving(panda):
    served = serve("panda7")
    served.hear([*panda.names, "wheel"], [*panda.q, 0.0], [*panda.qd, 0.0])
    return SimpleNamespace(core=served.core, failure="", building=False)


def running():
    statistics = Statistics()
    statistics.solved(1e-4, ())
    return statistics


def test_a_node_that_runs(serving):
    status = report(serving, running(), True)
    assert (status.warn, status.summary) == (False, "running")
    values = status.values
    assert values["robot"] == "panda" and values["joints"] == 7 and values["problem"] == "inverse"
    assert (values["algorithm"], values["backend"]) == ("rnea", "numpy")
    assert values["unknown joints in joint_states"] == 1 and float(values["oldest joint state [ms]"]) >= 0
    assert values["solve time p50 [us]"] == "100.0" and values["solved"] == 1


def test_services_without_their_gpu(serving):
    status = report(serving, running(), True, "cuStreamSynchronize: it is gone")
    assert status.warn and status.values["lost GPU"] == "cuStreamSynchronize: it is gone"
    assert status.summary == "running; services by the CPU, the GPU is lost: cuStreamSynchronize: it is gone"


def test_before_there_is_a_robot(serving):
    serving.core = None
    status = report(serving, Statistics(), True)
    assert status.warn and status.summary == "silent: no robot description yet"


@pytest.mark.parametrize("has_core, words", [(True, "the last good model serves"), (False, "no model yet")])
def test_a_description_that_was_refused(serving, has_core, words):
    serving.failure = "malformed XML"
    serving.core = serving.core if has_core else None
    status = report(serving, running(), True)
    assert status.warn and status.summary == f"malformed XML ({words})"
    assert status.values["description error"] == "malformed XML"


def test_the_first_that_is_wrong_is_the_summary(serving):
    statistics = running()
    statistics.solved(1e-4, ("panda_joint2",))
    assert report(serving, statistics, True).summary == "torque clamped at panda_joint2"
    statistics.silent(NoOutput("imu older than 1 s"))
    statistics.dropped("imu", "not finite")
    statistics.failed("odom: MemoryError")
    status = report(serving, statistics, True)
    assert status.warn and status.summary == "silent: imu older than 1 s"
    assert status.values["last drop"] == "imu: not finite" and status.values["dropped messages"] == 1
    assert status.values["last error"] == "odom: MemoryError" and status.values["errors"] == 1
    assert status.values["clamped joints"] == "panda_joint2"
    disabled = report(serving, statistics, False)
    assert (disabled.warn, disabled.summary, disabled.values["enabled"]) == (False, "disabled", False)


def test_what_is_carried_and_what_pushes(serving):
    serving.core.set_payload("panda_hand", 1.5, (0, 0, 0.1), 0.01 * np.eye(3))
    from time import monotonic_ns

    serving.core.wrenches.update("panda_link4", np.ones(6), monotonic_ns() + 10**12)
    values = report(serving, running(), True).values
    assert values["payloads"] == "panda_hand 1.5 kg" and values["external wrenches on"] == "panda_link4"
