"""Many states at once: the same results as one by one, in any shape and on any number of threads."""

import pickle

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.backends.c import BatchKernel, Kernel
from dynamics_node.backends.c.batch import CHUNK
from dynamics_node.program import trace

AGREEMENT = 1e-13  # of vectors with single numbers, beside the largest entry


def program():
    """Every operation, constants as outputs, an angle that needs a sine first."""

    def function(x, m):
        inner = np.sin(x) * 3 + np.cos(x[::-1] + 0.5)
        return {"y": np.sin(inner) / (m @ x + 5) - x, "z": np.array([2.0, x[0], -x[1]], dtype=object)}

    return trace(function, {"x": (2,), "m": (2, 2)})


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64, 1001])
def test_batch_equals_scalar(count):
    random = np.random.default_rng(count)
    x, m = random.uniform(-1, 1, (count, 2)), random.uniform(-1, 1, (count, 4))
    one_by_one = Kernel(program())(count, x, m)
    batch = BatchKernel(program())
    assert error(batch(count, x, m), one_by_one).max() <= AGREEMENT
    same = batch(count, x, m[0])
    assert error(same, Kernel(program())(count, x, m[0])).max() <= AGREEMENT
    assert np.array_equal(pickle.loads(pickle.dumps(batch))(count, x, m[0]), same)


def test_no_state():
    assert BatchKernel(program())(0, np.zeros((0, 2)), np.zeros(4)).shape == (0, 5)


@pytest.mark.parametrize("count", [3 * CHUNK, 3 * CHUNK + 5])
def test_threads_change_nothing(count):
    x = np.random.default_rng(0).uniform(-1, 1, (count, 2))
    batch = BatchKernel(program())
    alone = batch(count, x, np.ones(4), threads=1)
    assert np.array_equal(batch(count, x, np.ones(4), threads=3), alone)
    assert np.array_equal(batch(count, x, np.ones(4)), alone)


def test_strided_and_single_precision_input():
    x = np.random.default_rng(0).uniform(-1, 1, (2, 100)).astype(np.float32)
    batch = BatchKernel(program())
    expected = batch(100, x.T.astype(float).copy(), np.ones(4))
    assert np.array_equal(batch(100, x.T, np.ones(4)), expected)
    wide = np.zeros((200, 4))
    wide[::2, ::2] = x.T
    assert np.array_equal(batch(100, wide[::2, ::2], np.ones(4)), expected)
    with pytest.raises(ValueError, match=r"an input of shape \(100, 3\), not \(100, 4\) or \(4,\)"):
        batch(100, x.T, np.ones((100, 3)))


def test_a_bad_state_spoils_no_other():
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    batch = BatchKernel(program())
    expected = batch(20, x, np.ones(4))
    x[[3, 17], 0] = np.nan, 1e300
    found = batch(20, x, np.ones(4))
    good = ~np.isin(np.arange(20), [3, 17])
    assert error(found[good], expected[good]).max() <= AGREEMENT and np.isnan(found[3]).any()


@pytest.mark.parametrize("name", ["panda7", "baxter", "solo12"])
def test_facade_on_many_states(name):
    model = ROBOTS[name].model()
    q, qd, qdd, f_ext = random_states(model, 500, seed=71)
    for problem in (dn.inverse_dynamics(model), dn.forward_dynamics(model)):
        solver = dn.build(model, problem, backend="c", parameters=("inertia",))
        whole = solver(q, qd, qdd)
        assert "batch" in solver.engine.__dict__
        assert (
            error(whole[:20], np.array([solver(*row) for row in zip(q, qd, qdd, strict=True)][:20])).max()
            <= EXACT
        )
        shaped = (a.reshape(5, 100, *a.shape[1:]) for a in (q, qd, qdd, f_ext))
        pushed = solver(q, qd, qdd, f_ext)
        assert np.array_equal(solver(*shaped).reshape(pushed.shape), pushed)
        assert error(solver(q[3], qd[3], qdd[3], f_ext[3]), pushed[3]) <= EXACT
        heavier = dn.with_payload(model, model.bodies[-1].name, 1.0, np.zeros(3), 0.01 * np.eye(3))
        loaded = solver.with_model(heavier)
        assert error(loaded(q, qd, qdd)[7], loaded(q[7], qd[7], qdd[7])) <= EXACT
        assert error(loaded(q, qd, qdd), whole).max() > 1e-6
