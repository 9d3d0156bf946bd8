"""Programs along rows: what the compiled loop leaves is what the interpreter leaves, forward and backward."""

import pickle

import numpy as np
import pytest

from dynamics_node.codegen import Scan
from dynamics_node.symbolic import trace

pytestmark = pytest.mark.optimised


def _filter_program():
    """A rotating memory of two numbers, fed by a row of three."""

    def function(kept, row):
        turned = np.stack([kept[0] * np.cos(row[0]) - kept[1] * np.sin(row[0]), kept[1] + row[1]])
        return {"kept": turned, "sum": turned.sum(keepdims=True) + row[2]}

    return trace(function, {"kept": (2,), "row": (3,)})


def _plain(rows, kept):
    found = []
    for a, b, c in rows:
        kept = np.array([kept[0] * np.cos(a) - kept[1] * np.sin(a), kept[1] + b])
        found.append(kept.sum() + c)
    return kept, np.array(found)[:, None]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("direction", [1, -1])
def test_rows_follow_each_other(backend, direction):
    rows = np.random.default_rng(1).normal(size=(7, 5))[::direction, 1:4]
    scan = pickle.loads(pickle.dumps(Scan(_filter_program(), backend)))
    assert scan.backend == backend
    for count in (7, 1, 0):
        kept, out = np.array([0.3, -0.2]), np.full((count, 1), np.nan)
        expected, found = _plain(rows[:count], kept.copy())
        scan(rows[:count], kept, out)
        np.testing.assert_allclose(kept, expected, rtol=1e-14)
        np.testing.assert_allclose(out, found.reshape(-1, 1), rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_rows_may_overlap(backend):
    numbers = np.random.default_rng(2).normal(size=20)
    rows = np.lib.stride_tricks.as_strided(numbers, (6, 3), (16, 8))
    kept, out = np.zeros(2), np.empty((6, 1))
    Scan(_filter_program(), backend)(rows, kept, out)
    np.testing.assert_allclose(out, _plain(rows, np.zeros(2))[1], rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_the_last_outputs_of_every_row_are_watched(backend):
    rows = np.array([[0.1, 0.0, 1.0], [0.2, 0.0, 5.0], [0.3, 0.0, 1.0]])
    scan, kept, out = Scan(_filter_program(), backend), np.zeros(2), np.empty((3, 1))
    assert scan.bound(rows, kept, out)()
    assert scan.bound(rows, kept, out, [5.0])()
    assert not scan.bound(rows, np.zeros(2), out, [4.9])()
    rows[1, 2] = np.nan
    assert not scan.bound(rows, np.zeros(2), out, [1e9])()


def test_arrays_that_do_not_fit_are_refused():
    scan = Scan(_filter_program(), "numpy")
    rows, kept, out = np.zeros((4, 3)), np.zeros(2), np.zeros((4, 1))
    with pytest.raises(ValueError, match="rows.*float64"):
        scan(rows[:, :2], kept, out)
    with pytest.raises(ValueError, match="carried"):
        scan(rows, np.zeros(3), out)
    with pytest.raises(ValueError, match="out "):
        scan(rows, kept, out[:3])
    with pytest.raises(ValueError, match="contiguous"):
        scan(np.asfortranarray(rows), kept, out)


def test_a_program_that_leaves_something_else_is_refused():
    program = trace(lambda a: {"b": a[:1]}, {"a": (2,)})
    with pytest.raises(ValueError, match="first output"):
        Scan(program, "numpy")
