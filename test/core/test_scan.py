"""Scans of a Program along rows: compiled loop and interpreter agree, forward and backward."""

import pickle

import numpy as np
import pytest

from dynamics_node.codegen import Scan
from dynamics_node.symbolic import trace

pytestmark = pytest.mark.optimized


def _filter_program():
    """A state of two numbers, rotated and updated by rows of three."""

    def function(kept, row):
        turned = np.stack([kept[0] * np.cos(row[0]) - kept[1] * np.sin(row[0]), kept[1] + row[1]])
        return {"kept": turned, "sum": turned.sum(keepdims=True) + row[2]}

    return trace(function, {"kept": (2,), "row": (3,)})


def _by_loop(rows, kept):
    sums = []
    for a, b, c in rows:
        kept = np.array([kept[0] * np.cos(a) - kept[1] * np.sin(a), kept[1] + b])
        sums.append(kept.sum() + c)
    return kept, np.array(sums)[:, None]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("direction", [1, -1])
def test_scan_agrees_with_a_loop(backend, direction):
    rows = np.random.default_rng(1).normal(size=(7, 5))[::direction, 1:4]
    scan = pickle.loads(pickle.dumps(Scan(_filter_program(), backend)))
    assert scan.backend == backend
    for count in (7, 1, 0):
        kept, out = np.array([0.3, -0.2]), np.full((count, 1), np.nan)
        expected, sums = _by_loop(rows[:count], kept.copy())
        scan(rows[:count], kept, out)
        np.testing.assert_allclose(kept, expected, rtol=1e-14)
        np.testing.assert_allclose(out, sums.reshape(-1, 1), rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_rows_may_overlap(backend):
    numbers = np.random.default_rng(2).normal(size=20)
    rows = np.lib.stride_tricks.as_strided(numbers, (6, 3), (16, 8))
    kept, out = np.zeros(2), np.empty((6, 1))
    Scan(_filter_program(), backend)(rows, kept, out)
    np.testing.assert_allclose(out, _by_loop(rows, np.zeros(2))[1], rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_limits_apply_to_every_row(backend):
    rows = np.array([[0.1, 0.0, 1.0], [0.2, 0.0, 5.0], [0.3, 0.0, 1.0]])
    scan, kept, out = Scan(_filter_program(), backend), np.zeros(2), np.empty((3, 1))
    assert scan.bound(rows, kept, out)()
    assert scan.bound(rows, kept, out, [5.0])()
    assert not scan.bound(rows, np.zeros(2), out, [4.9])()
    rows[1, 2] = np.nan
    assert not scan.bound(rows, np.zeros(2), out, [1e9])()


def test_mismatched_arrays_are_rejected():
    scan = Scan(_filter_program(), "numpy")
    rows, kept, out = np.zeros((4, 3)), np.zeros(2), np.zeros((4, 1))
    with pytest.raises(ValueError, match="rows.*float64"):
        scan(rows[:, :2], kept, out)
    with pytest.raises(ValueError, match="carry"):
        scan(rows, np.zeros(3), out)
    with pytest.raises(ValueError, match="out "):
        scan(rows, kept, out[:3])
    with pytest.raises(ValueError, match="contiguous"):
        scan(np.asfortranarray(rows), kept, out)


def test_program_without_a_matching_state_is_rejected():
    program = trace(lambda a: {"b": a[:1]}, {"a": (2,)})
    with pytest.raises(ValueError, match="first output"):
        Scan(program, "numpy")
