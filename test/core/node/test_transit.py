"""What waited in front of a stopped process is not new; clocks that differ, or are set, are no delay."""

import pytest

from dynamics_node.node.state.wire import BUCKET, Transit

MS = 1_000_000
START = 1_700_000_000_000 * MS


def _stream(transit, start, count, period=2 * MS, way=MS, ahead=0):
    """Messages one after the other; `ahead`: of the publisher's clock. What each waited, and when it ended."""
    found = []
    for k in range(count):
        published = start + k * period
        received = published + way + (k % 3) * MS // 2
        found.append(transit.waited(published + ahead, received, received))
    return found, start + count * period


@pytest.mark.parametrize("ahead", [0, 3600_000 * MS, -3600_000 * MS])
def test_what_waited_while_the_process_was_stopped_is_as_old_as_it_is(ahead):
    transit = Transit()
    found, stopped = _stream(transit, START, 500, ahead=ahead)
    assert not any(found)
    goes_on = stopped + 950 * MS
    old = [transit.waited(stopped + k * 2 * MS + ahead, goes_on + k, goes_on + k) for k in range(400)]
    for k, waited in enumerate(old):
        assert waited == pytest.approx((950 - 2 * k) * MS, abs=3 * MS)
    found, _ = _stream(transit, goes_on + MS, 100, ahead=ahead)
    assert not any(found)


def test_a_stop_longer_than_what_is_remembered_is_noticed():
    transit = Transit()
    _, stopped = _stream(transit, START, 500)
    goes_on = stopped + 10 * BUCKET
    assert transit.waited(stopped, goes_on, goes_on) == pytest.approx(10 * BUCKET, abs=3 * MS)


def test_a_clock_that_is_set_back_is_usual_after_a_second():
    transit = Transit()
    _, end = _stream(transit, START, 500)
    found, end = _stream(transit, end, 1000, ahead=-5000 * MS)
    late = [bool(waited) for waited in found]
    assert late[0] and not late[-1] and sum(late) * 2 * MS == pytest.approx(BUCKET, rel=0.01)


def test_a_clock_that_is_set_forward_is_usual_at_once():
    transit = Transit()
    _, end = _stream(transit, START, 500)
    assert not any(_stream(transit, end, 500, ahead=5000 * MS)[0])


def test_two_publishers_with_different_clocks_are_both_usual():
    transit, late = Transit(), 0
    for k in range(3000):
        now = START + k * MS
        behind = 2000 * MS if k % 2 else 0
        late += bool(transit.waited(now - behind, now + MS, now)) and k > 2000
    assert late == 0


def test_a_middleware_without_stamps_says_nothing():
    assert Transit().waited(0, START, START) == 0
    assert Transit().waited(START, 0, START) == 0
