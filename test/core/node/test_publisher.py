"""When torques are published, when something else is, and when nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve
from tolerances import EXACT, error

from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.publisher import Publisher


class Bench:
    """Publisher of a Panda; what is published."""

    def __init__(self, panda, **values):
        self.panda, self.served = panda, serve("panda7", **values)
        self.manager = SimpleNamespace(settings=self.served.core.settings, core=self.served.core)
        self.statistics, self.published = Statistics(), []
        self.answers = Publisher(
            self.manager,
            self.statistics,
            lambda core, result: self.published.append(self.served.published(result)),
            lambda: self.served.ros,
            lambda: self.served.now,
        )

    def hear(self):
        self.served.hear(self.panda.names, self.panda.q, self.panda.qd)
        return self


@pytest.mark.parametrize("rate", [0.0, 50.0])
@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_stale_input(panda, on_stale, rate):
    """At rate 0 a timer looks for it, else every output does."""
    bench = Bench(panda, on_stale=on_stale, rate=rate).hear()
    tick = bench.answers.answer if rate else bench.answers.answer_if_stale
    bench.answers.answer()
    assert error(bench.published.pop(), panda.torque()) <= EXACT
    bench.served.wait(200)
    tick()
    assert len(bench.published) == (1 if rate else 0)
    bench.published.clear()
    bench.served.wait(1)
    tick()
    if on_stale == "silent":
        assert not bench.published
    else:
        expected = panda.torque(qd=0 * panda.qd) if on_stale == "gravity" else np.zeros(7)
        assert error(bench.published.pop(), expected) <= EXACT
    assert bench.statistics.silent_because.startswith("joint states older than 0.2 s: panda_joint1")
    bench.hear().answers.answer()
    assert error(bench.published.pop(), panda.torque()) <= EXACT
    assert bench.statistics.silent_because == ""


@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_without_a_complete_state_nothing_is_published(panda, on_stale):
    bench = Bench(panda, on_stale=on_stale, rate=50.0)
    bench.answers.answer()
    bench.answers.answer_if_stale()
    assert not bench.published and "never seen" in bench.statistics.silent_because


def test_a_state_that_is_not_answered_at_once_publishes_nothing_else(panda):
    """At rate 0 the answer of a stale state is silence; only the timer says what on_stale wants."""
    bench = Bench(panda, on_stale="zero").hear()
    bench.served.wait(201)
    bench.answers.answer()
    assert not bench.published and bench.statistics.counts["silent"] == 1


def test_disabled_nothing_is_published(panda):
    bench = Bench(panda, on_stale="zero", autostart=False).hear()
    bench.answers.answer()
    bench.served.wait(201)
    bench.answers.answer_if_stale()
    assert not bench.published and not bench.statistics.counts
    bench.answers.enabled = True
    bench.hear().answers.answer()
    assert error(bench.published.pop(), panda.torque()) <= EXACT


def test_without_a_robot_nothing_is_done(panda):
    bench = Bench(panda)
    bench.manager.core = None
    bench.answers.answer()
    bench.answers.answer_if_stale()
    bench.answers.note_stale_input()
    assert not bench.published and bench.statistics.silent_because == "no robot description yet"


def test_input_that_has_stopped_is_noted_and_not_counted(panda):
    """With rate 0 and on_stale silent nothing else looks."""
    bench = Bench(panda).hear()
    bench.answers.answer()
    bench.answers.note_stale_input()
    assert bench.statistics.silent_because == ""
    bench.served.wait(201)
    bench.answers.note_stale_input()
    assert "older than 0.2 s" in bench.statistics.silent_because and not bench.statistics.counts["silent"]


def test_joint_states_that_have_stopped_do_not_matter_to_a_reference(panda):
    bench = Bench(panda, state_source="reference").hear()
    bench.served.wait(201)
    bench.answers.note_stale_input()
    assert bench.statistics.silent_because == "no robot description yet"  # as at the beginning


def test_publisher_and_limits_are_counted(panda):
    bench = Bench(panda, effort_limits="list", effort_limits_list=[1.0] * 7).hear()
    bench.answers.answer()
    assert bench.statistics.counts == {"solved": 1} and "panda_joint2" in bench.statistics.clamped
    p50, p99 = map(float, bench.statistics.take_times().values())
    assert 0 < p50 <= p99 and bench.statistics.take_times() == {}
