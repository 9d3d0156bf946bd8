"""Messages that waited for a stopped process are old; different or adjusted clocks are not a delay."""

import pytest

from dynamics_node.node.state.wire import BUCKET, Transit

MS = 1_000_000
START = 1_700_000_000_000 * MS


def _stream(transit, start, count, period=2 * MS, transport=MS, ahead=0):
    """Delays of a stream of messages, and its end; ahead: offset of the publisher's clock, ns."""
    delays = []
    for k in range(count):
        published = start + k * period
        received = published + transport + (k % 3) * MS // 2
        delays.append(transit.waited(published + ahead, received, received))
    return delays, start + count * period


@pytest.mark.parametrize("ahead", [0, 3600_000 * MS, -3600_000 * MS])
def test_messages_during_a_stop_of_the_process_are_delayed(ahead):
    transit = Transit()
    delays, stopped = _stream(transit, START, 500, ahead=ahead)
    assert not any(delays)
    resumed = stopped + 950 * MS
    old = [transit.waited(stopped + k * 2 * MS + ahead, resumed + k, resumed + k) for k in range(400)]
    for k, waited in enumerate(old):
        assert waited == pytest.approx((950 - 2 * k) * MS, abs=3 * MS)
    delays, _ = _stream(transit, resumed + MS, 100, ahead=ahead)
    assert not any(delays)


def test_a_stop_longer_than_the_memory_is_detected():
    transit = Transit()
    _, stopped = _stream(transit, START, 500)
    resumed = stopped + 10 * BUCKET
    assert transit.waited(stopped, resumed, resumed) == pytest.approx(10 * BUCKET, abs=3 * MS)


def test_a_clock_set_back_is_accepted_after_a_second():
    transit = Transit()
    _, end = _stream(transit, START, 500)
    delays, end = _stream(transit, end, 1000, ahead=-5000 * MS)
    late = [bool(waited) for waited in delays]
    assert late[0] and not late[-1] and sum(late) * 2 * MS == pytest.approx(BUCKET, rel=0.01)


def test_a_clock_set_forward_is_accepted_at_once():
    transit = Transit()
    _, end = _stream(transit, START, 500)
    assert not any(_stream(transit, end, 500, ahead=5000 * MS)[0])


def test_two_publishers_with_different_clocks_have_no_delay():
    transit, late = Transit(), 0
    for k in range(3000):
        now = START + k * MS
        behind = 2000 * MS if k % 2 else 0
        late += bool(transit.waited(now - behind, now + MS, now)) and k > 2000
    assert late == 0


def test_a_middleware_without_stamps_gives_no_delay():
    assert Transit().waited(0, START, START) == 0
    assert Transit().waited(START, 0, START) == 0
