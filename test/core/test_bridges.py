"""What every framework does alike with a Function: arguments, many states, pickles, several threads, memory."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import compilers
import numpy as np
import pytest
from bridged import CALLS, GROWTH, built, float64_in_jax, resident
from robots import robot_of

import dynamics_node as dn

compilers.require("cc", module=True)
LEAST = {"casadi": "casadi>=3", "jax": "jax>=0", "torch": "torch>=2"}
BATCHED = pytest.mark.parametrize("framework", ["jax", "torch"], indirect=True)


@pytest.fixture(params=LEAST)
def framework(request):
    """The name of an installed one."""
    pytest.importorskip(request.param, reason=f"pip install {request.param}")
    with float64_in_jax():
        yield request.param


def bridge_of(function, framework, **options):
    return getattr(function, framework)(**options)


@BATCHED
def test_several_results(framework):
    function, (q,) = built("panda7", "frame_pose", link="panda_hand")
    pose, right = bridge_of(function, framework)(q), function(q)
    assert type(pose) is type(right)
    assert all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(pose, right, strict=True))


@BATCHED
def test_arguments(framework):
    function, states = built("panda7", "inverse_dynamics")
    bridge = bridge_of(function, framework)
    of_lists = bridge([0] * 7, [0] * 7, [1] * 7)
    assert str(of_lists.dtype).endswith({"jax": "float64", "torch": "float32"}[framework])
    mixed = bridge(*(array.astype(kind) for array, kind in zip(states, "fdf", strict=True)))
    assert str(mixed.dtype).endswith("float64")
    with pytest.raises(dn.InputError, match="qd has the shape"):
        bridge(states[0], states[1][:, :6], states[2])
    for wrong in (states[:2], (*states, states[0])):
        with pytest.raises(TypeError, match="q, qd, qdd"):
            bridge(*wrong)
    with pytest.raises(TypeError, match="q, qd, qdd"):
        bridge(*states[:2], tau=states[2])


@BATCHED
def test_many_states(framework):
    """In vectors, but for those around a singular one and one that is not finite."""
    function = dn.build(
        robot_of("panda7"), "operational_space_inertia", backend="numpy", links=["panda_hand"]
    )
    q = np.random.default_rng(3).uniform(-1, 1, (600, 7))
    q[300], q[400] = 0, np.nan
    results, right = bridge_of(function, framework, order=0)(q), function(q, errors="nan")
    assert np.isnan(right[0][[300, 400]]).all() and np.isfinite(right[0]).sum() > 598 * 30
    for own, reference in zip(results, right, strict=True):
        assert np.allclose(own, reference, rtol=1e-7, equal_nan=True)


def test_pickle_and_threads(framework):
    function, states = built("five_bar", "forward_dynamics")
    bridge = pickle.loads(pickle.dumps(bridge_of(function, framework)))
    right = function(*states)

    def work(k):
        own = pickle.loads(pickle.dumps(bridge))  # a casadi.Function has memory of its own for one thread
        called = own if framework == "casadi" else bridge
        state = [array[k] for array in states]
        return all(np.allclose(np.array(called(*state)).ravel(), right[k], rtol=1e-10) for _ in range(300))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(4)))


def test_memory_does_not_grow(framework):
    function, states = built("panda7", "inverse_dynamics")
    bridge = bridge_of(function, framework)
    state = [_argument(framework, array[0]) for array in states]
    for calls in (1000, CALLS):
        before = resident()
        for _ in range(calls):
            result = bridge(*state)
        if framework == "jax":
            result.block_until_ready()
    assert resident() - before < GROWTH


def _argument(framework, array):
    module = sys.modules[framework]
    if framework == "torch":
        return module.tensor(array, requires_grad=True)
    return module.DM(array) if framework == "casadi" else module.numpy.asarray(array)


@pytest.mark.parametrize("framework", LEAST)
def test_without_the_framework(framework, monkeypatch):
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=f"pip install .{LEAST[framework]}"):
        bridge_of(built("five_bar", "gravity_torque")[0], framework)
