"""The Publisher: torques, the output of on_stale, or nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from plain import point, serve
from tolerances import EXACT, error

from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.publisher import Publisher


class Bench:
    """Publisher of a Panda, with its published torques."""

    def __init__(self, panda, **values):
        self.panda, self.served = panda, serve("panda7", **values)
        self.manager = SimpleNamespace(settings=self.served.core.settings, core=self.served.core)
        self.statistics, self.published = Statistics(), []
        self.publisher = Publisher(
            self.manager,
            self.statistics,
            SimpleNamespace(ros_now=lambda: self.served.ros, stamp=None),
            lambda core, result, _: self.published.append(self.served.published(result)),
            lambda *_: None,
            lambda *_: None,
            lambda: self.served.now,
        )

    def receive(self):
        self.served.receive(self.panda.names, self.panda.q, self.panda.qd)
        return self


@pytest.mark.parametrize("rate", [0.0, 50.0])
@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_stale_input_gives_the_output_of_on_stale(panda, on_stale, rate):
    """At rate 0 a timer detects it, otherwise every output."""
    bench = Bench(panda, on_stale=on_stale, rate=rate).receive()
    tick = bench.publisher.answer if rate else bench.publisher.answer_if_stale
    bench.publisher.answer()
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
    assert bench.statistics.no_output_reason.startswith("joint states older than 0.2 s: panda_joint1")
    bench.publisher.note_stale_input()
    published = "no output" if on_stale == "silent" else f"{on_stale} torques in place of the output"
    assert bench.statistics.trouble.startswith(f"{published}: joint states older than 0.2 s: panda_joint1")
    bench.receive().publisher.answer()
    assert error(bench.published.pop(), panda.torque()) <= EXACT
    assert bench.statistics.no_output_reason == bench.statistics.trouble == ""


@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_without_a_complete_state_nothing_is_published(panda, on_stale):
    bench = Bench(panda, on_stale=on_stale, rate=50.0)
    bench.publisher.answer()
    bench.publisher.answer_if_stale()
    assert not bench.published and bench.statistics.trouble.startswith("no output: never seen")


def test_a_stale_state_at_rate_zero_publishes_nothing(panda):
    """At rate 0 a stale state gives no output; the timer publishes that of on_stale."""
    bench = Bench(panda, on_stale="zero").receive()
    bench.served.wait(201)
    bench.publisher.answer()
    assert not bench.published and bench.statistics.counts["no output"] == 1


def test_a_disabled_publisher_publishes_nothing(panda):
    bench = Bench(panda, on_stale="zero", autostart=False).receive()
    bench.publisher.answer()
    bench.served.wait(201)
    bench.publisher.answer_if_stale()
    assert not bench.published and not bench.statistics.counts
    bench.publisher.enabled = True
    bench.receive().publisher.answer()
    assert error(bench.published.pop(), panda.torque()) <= EXACT


def test_without_a_robot_nothing_is_published(panda):
    bench = Bench(panda)
    bench.manager.core = None
    bench.publisher.answer()
    bench.publisher.answer_if_stale()
    bench.publisher.note_stale_input()
    assert not bench.published and bench.statistics.no_output_reason == "no robot description yet"


def test_stale_input_is_noted_and_not_counted(panda):
    """With rate 0 and on_stale silent no other call detects it."""
    bench = Bench(panda).receive()
    bench.publisher.answer()
    bench.publisher.note_stale_input()
    assert bench.statistics.no_output_reason == ""
    bench.served.wait(201)
    bench.publisher.note_stale_input()
    assert "older than 0.2 s" in bench.statistics.no_output_reason
    assert not bench.statistics.counts["no output"]


def test_stale_joint_states_do_not_affect_a_reference(panda):
    bench = Bench(panda, state_source="reference").receive()
    bench.served.wait(201)
    bench.publisher.note_stale_input()
    assert bench.statistics.no_output_reason == "no robot description yet"  # as at the beginning


def test_results_and_limits_are_counted(panda):
    bench = Bench(panda, effort_limits="list", effort_limits_list=[1.0] * 7).receive()
    bench.publisher.answer()
    assert bench.statistics.counts == {"solved": 1} and "panda_joint2" in bench.statistics.clamped
    p50, p99 = map(float, bench.statistics.take_times().values())
    assert 0 < p50 <= p99 and bench.statistics.take_times() == {}


@pytest.mark.parametrize("rate", [0.0, 50.0])
@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_the_end_of_a_reference_gives_the_output_of_on_stale(panda, on_stale, rate):
    bench = Bench(panda, on_stale=on_stale, rate=rate, state_source="reference").receive()
    tick = bench.publisher.answer if rate else bench.publisher.answer_if_stale
    tick()
    assert not bench.published, "before the first reference"
    bench.served.refer(panda.names, point(q=panda.q + 0.1, qd=panda.qd))
    bench.receive().publisher.answer()
    assert error(bench.published.pop(), panda.torque(q=panda.q + 0.1)) <= EXACT
    bench.served.wait(501)
    bench.receive()
    tick()
    if on_stale == "silent":
        assert not bench.published
    else:
        expected = panda.torque(qd=0 * panda.qd) if on_stale == "gravity" else np.zeros(7)
        assert error(bench.published.pop(), expected) <= EXACT
    assert bench.statistics.no_output_reason.startswith("no active reference")
