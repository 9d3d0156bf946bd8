"""Diagnostics, and log lines for lasting missing output."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve

from dynamics_node.node.core.diagnostics import Statistics, report
from dynamics_node.node.errors import REPORTS_BEFORE_LOG, REPORTS_BETWEEN_LOGS, NoOutput, Reminder


def logged(reminder, reasons):
    """Indices of the logged reports."""
    return [k for k, reason in enumerate(reasons) if reminder.next(reason, "")]


def test_lasting_missing_output_is_logged_repeatedly():
    reminder = Reminder()
    assert logged(reminder, ["no odom"] * 3 * REPORTS_BETWEEN_LOGS) == [
        REPORTS_BEFORE_LOG - 1 + k * REPORTS_BETWEEN_LOGS for k in range(3)
    ]


def test_brief_missing_output_is_not_logged():
    assert not logged(Reminder(), ["no odom", ""] * 20)


def test_a_new_reason_is_logged_at_once():
    assert logged(Reminder(), ["no odom"] * 4 + ["no imu"] * 3) == [1, 4]


def test_other_numbers_are_no_new_reason():
    slips = [f"contact 'foot{foot}' slips: {n:.3g} N" for foot, n in ((1, 3.2), (1, -4e-7), (2, 5), (2, 6))]
    assert logged(Reminder(), slips[:1] + slips) == [1, 3]


def test_a_remedy_follows_the_reason():
    reminder = Reminder()
    reminder.next("no odom", "publish odom")
    assert reminder.next("no odom", "publish odom") == "no odom; publish odom"


@pytest.fixture
def manager(panda):
    served = serve("panda7")
    served.receive([*panda.names, "wheel"], [*panda.q, 0.0], [*panda.qd, 0.0])
    return SimpleNamespace(core=served.core, failure="", building=False)


def running():
    statistics = Statistics()
    statistics.solved(1e-4, ())
    return statistics


def test_report_of_a_running_node(manager):
    status = report(manager, running(), True)
    assert (status.warn, status.summary) == (False, "running")
    values = status.values
    assert values["robot"] == "panda" and values["joints"] == 7 and values["problem"] == "inverse"
    assert (values["algorithm"], values["backend"]) == ("rnea", "numpy")
    assert values["unknown joints in joint_states"] == 1 and float(values["oldest joint state [ms]"]) >= 0
    assert values["solve time p50 [us]"] == "100.0" and values["solved"] == 1


def test_report_of_a_lost_gpu(manager):
    status = report(manager, running(), True, "cuStreamSynchronize: it is gone")
    assert status.warn and status.values["lost GPU"] == "cuStreamSynchronize: it is gone"
    assert status.summary == "running; services on the CPU, the GPU is lost: cuStreamSynchronize: it is gone"


def test_report_before_a_robot(manager):
    manager.core = None
    status = report(manager, Statistics(), True)
    assert status.warn and status.summary == "no output: no robot description yet"


@pytest.mark.parametrize(
    "has_core, state", [(True, "the last valid robot is in use"), (False, "no robot yet")]
)
def test_report_of_a_rejected_description(manager, has_core, state):
    manager.failure = "malformed XML"
    manager.core = manager.core if has_core else None
    status = report(manager, running(), True)
    assert status.warn and status.summary == f"malformed XML ({state})"
    assert status.values["description error"] == "malformed XML"


def test_the_first_problem_is_the_summary(manager):
    statistics = running()
    statistics.solved(1e-4, ("panda_joint2",))
    assert report(manager, statistics, True).summary == "torque clamped at panda_joint2"
    statistics.no_output(NoOutput("imu older than 1 s"))
    statistics.dropped("imu", "not finite")
    statistics.failed("odom: MemoryError")
    status = report(manager, statistics, True)
    assert status.warn and status.summary == "no output: imu older than 1 s"
    assert status.values["last drop"] == "imu: not finite" and status.values["dropped messages"] == 1
    assert status.values["last error"] == "odom: MemoryError" and status.values["errors"] == 1
    assert status.values["clamped joints"] == "panda_joint2"
    disabled = report(manager, statistics, False)
    assert (disabled.warn, disabled.summary, disabled.values["enabled"]) == (False, "disabled", False)


def test_report_of_payloads_and_wrenches(manager):
    manager.core.set_payload("panda_hand", 1.5, (0, 0, 0.1), 0.01 * np.eye(3))
    from time import monotonic_ns

    manager.core.wrenches.update("panda_link4", np.ones(6), monotonic_ns() + 10**12)
    values = report(manager, running(), True).values
    assert values["payloads"] == "panda_hand 1.5 kg" and values["external wrenches on"] == "panda_link4"


def test_the_documentation_names_existing_keys(manager):
    text = (Path(__file__).parents[3] / "docs" / "reference" / "ros.md").read_text()
    named = re.findall(r"diagnostics\s+\(`([^`]+)`\)", text)
    assert named and set(named) <= report(manager, running(), True).values.keys()
