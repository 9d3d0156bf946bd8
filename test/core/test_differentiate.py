"""Derivatives of recorded signals: accurate, without delay, for any stamps and chunks."""

import tracemalloc

import numpy as np
import pytest

from dynamics_node.errors import TableError
from dynamics_node.io.differentiate import Derivatives, differentiated

RATE, CUTOFF = 500.0, 10.0
BOTH = {"qd": 1, "qdd": 2}


def signal(time, frequency=1.0):
    """Two columns of sines: value, first and second derivative."""
    w = 2 * np.pi * frequency * np.array([1.0, 0.5])
    x = w * time[:, None] + [0.0, 1.0]
    return np.sin(x), w * np.cos(x), -(w**2) * np.sin(x)


def derivatives(time, values, chunk=400, source="q", orders=BOTH, wraps=False, cutoff=CUTOFF):
    """{kind: array}, joined from the chunks."""
    n = values.shape[1]
    request = Derivatives(source, np.arange(n), np.full(n, wraps), orders)
    chunks = (
        {source: values[k : k + chunk], "time": time[k : k + chunk]} for k in range(0, len(time), chunk)
    )
    results = list(differentiated(chunks, request, cutoff))
    return {kind: np.concatenate([rows[kind] for rows in results]) for kind in results[0]}


def inside(time, periods=3):
    """Rows at least this many periods of the cut-off away from the ends."""
    return np.minimum(time - time.min(), time.max() - time) >= periods / CUTOFF


def relative_error(values, expected):
    return np.abs(values - expected).max() / np.abs(expected).max()


def test_sines():
    time = 1.7e9 + np.arange(0, 6, 1 / RATE)  # a current date: doubles resolve its stamps to 0.2 us
    value, first, second = signal(time - 1.7e9)
    signals, keep = derivatives(time, value), inside(time)
    assert np.array_equal(signals["q"], value) and np.array_equal(signals["time"], time)
    assert relative_error(signals["qd"][keep], first[keep]) < 1e-4
    assert relative_error(signals["qdd"][keep], second[keep]) < 1e-3
    signals = derivatives(time, first, source="qd", orders={"qdd": 1})
    assert relative_error(signals["qdd"][keep], second[keep]) < 1e-4


def test_ends_are_nan():
    """Near the ends the filter returns NaN; next to these its error is about 1 %."""
    time = np.arange(0, 3, 1 / RATE)
    for start in np.linspace(0, 1, 9):
        value, first, second = signal(time + start)
        signals = derivatives(time, value)
        finite = np.isfinite(signals["qdd"]).all(axis=1)
        assert np.array_equal(finite, inside(time, 1.5 - 1e-9))
        assert relative_error(signals["qd"][finite], first[finite]) < 0.01
        assert relative_error(signals["qdd"][finite], second[finite]) < 0.0125


def test_amplitude_halves_at_the_cutoff():
    time = np.arange(0, 4, 1 / RATE)
    keep = inside(time)
    for frequency, gain in ((CUTOFF, 0.5), (CUTOFF / 5, 1.0), (2 * CUTOFF, 1 / 257)):
        value, first, _ = signal(time, frequency)
        rates = derivatives(time, value[:, :1])["qd"]
        size = np.sqrt(np.mean(rates[keep] ** 2) / np.mean(first[keep, :1] ** 2))
        assert abs(size - gain) < 0.005
        assert abs(np.corrcoef(rates[keep, 0], first[keep, 0])[0, 1] - 1) < 2e-3  # no delay


def test_results_do_not_depend_on_chunks():
    time = np.arange(0, 8, 1 / RATE)
    value = signal(time)[0] + 1e-3 * np.random.default_rng(0).normal(size=(len(time), 2))
    whole = derivatives(time, value, chunk=len(time))
    for chunk in (37, 400, 1501):
        parts = derivatives(time, value, chunk)
        for kind in BOTH:
            finite = np.isfinite(whole[kind])
            assert np.array_equal(np.isfinite(parts[kind]), finite)
            assert relative_error(parts[kind][finite], whole[kind][finite]) < 1e-6


@pytest.mark.parametrize("jitter", ["steps", "order", "double", "near"])
def test_irregular_stamps(jitter):
    random, time = np.random.default_rng(1), np.arange(0, 6, 1 / RATE)
    if jitter == "steps":
        time = time + random.uniform(-0.4, 0.4, len(time)) / RATE
    elif jitter == "order":  # two publishers, one of them late
        time[1::2] -= 1.3 / RATE
    elif jitter == "double":
        time[1::5] = time[::5]
    else:
        time[1::5] = time[::5] + 1e-7
    value, first, second = signal(time)
    value = value + 1e-7 * random.normal(size=value.shape)
    signals, keep = derivatives(time, value), inside(time)
    assert relative_error(signals["qd"][keep], first[keep]) < 1e-3
    assert relative_error(signals["qdd"][keep], second[keep]) < 1e-2


def test_gaps_separate_pieces():
    """Nothing is interpolated between two pieces; an isolated sample has no derivative."""
    time = np.concatenate([np.arange(0, 2, 1 / RATE), [3.0], np.arange(4, 6, 1 / RATE)])
    value, first, _ = signal(time)
    value[1001:] += 5.0
    rates = derivatives(time, value)["qd"]
    assert np.isnan(rates[1000]).all()
    for piece in (slice(0, 1000), slice(1001, None)):
        keep = inside(time[piece])
        assert np.array_equal(np.isfinite(rates[piece, 0]), inside(time[piece], 1.5 - 1e-6))
        assert relative_error(rates[piece][keep], first[piece][keep]) < 1e-4


def test_jump_back_in_time_and_bad_rows():
    part = np.arange(0, 3, 1 / RATE)
    time = np.concatenate([part, part])
    value, first, _ = signal(time)
    value[[400, 401]] = np.nan
    rates = derivatives(time, value, chunk=333)["qd"]
    assert np.isnan(rates[[400, 401]]).all() and np.isfinite(rates[[399, 402]]).all()
    for piece in (slice(0, len(part)), slice(len(part), None)):
        keep = inside(part) & np.isfinite(value[piece]).all(axis=1)
        assert relative_error(rates[piece][keep], first[piece][keep]) < 1e-3


def test_angles_wrapped_by_a_turn():
    time = np.arange(0, 4, 1 / RATE)
    value = (np.stack([3 * time, -5 * time], axis=1) + np.pi) % (2 * np.pi) - np.pi
    signals = derivatives(time, value, wraps=True)
    assert np.allclose(signals["qd"][inside(time, 1.5)], [3, -5], atol=1e-6)


def test_too_few_samples():
    time = np.arange(0, 4, 0.05)
    with pytest.raises(TableError, match="--cutoff 10 .*20 states.*--cutoff 5"):
        derivatives(time, signal(time)[0])
    for unit in (1e3, 1e9):
        with pytest.raises(TableError, match="(milli|nano)seconds"):
            derivatives(time * unit, signal(time)[0])
    with pytest.raises(TableError, match="advance"):
        derivatives(0 * time, signal(time)[0])
    rates = derivatives(time, signal(time, 0.2)[0], cutoff=5.0)["qd"]
    assert np.isfinite(rates[6:-6]).all() and np.isnan(rates[[5, -6]]).all()
    for few in (1, 2, 50):
        time = np.arange(few) / RATE
        assert np.isnan(derivatives(time, signal(time)[0])["qd"]).all()


def test_memory_is_bounded():
    """40 000 states, 1.9 MB as arrays, come in chunks of one second."""
    rows, chunk = 40_000, 500

    def chunks():
        for start in range(0, rows, chunk):
            time = np.arange(start, min(start + chunk, rows)) / RATE
            yield {"q": signal(time)[0], "time": time}

    request = Derivatives("q", np.arange(2), np.zeros(2, dtype=bool), BOTH)
    tracemalloc.start()
    count = sum(len(signals["qdd"]) for signals in differentiated(chunks(), request, CUTOFF))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == rows and peak < 1e6
