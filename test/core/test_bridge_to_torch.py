"""Functions in PyTorch: results, derivatives, vmap, several threads, pickles."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import compilers
import numpy as np
import pytest
from bridged import CALLS, CASES, GROWTH, built, require_tangent, resident
from robots import robot_of

import dynamics_node as dn

compilers.require("cc", module=True)
CHECKED = [("five_bar", "forward_dynamics"), ("solo12", "gravity_torque")]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="pip install 'dynamics_node[torch]'")


@pytest.mark.parametrize(("name", "quantity"), CASES)
def test_results_and_derivatives(torch, name, quantity):
    function, states = built(name, quantity)
    bridge, derivatives = function.torch(), function.derivatives()
    tensors = [torch.from_numpy(array) for array in states]
    right = function(*states)
    assert np.allclose(bridge(*tensors), right, rtol=0, atol=1e-11 * max(1, np.abs(right).max()))
    arguments = tuple(range(len(states)))
    forward = torch.func.vmap(torch.func.jacfwd(bridge, arguments))(*tensors)
    backward = torch.func.vmap(torch.func.jacrev(bridge, arguments))(*tensors)
    for k, state in enumerate(zip(*states, strict=True)):
        by_q, *others = derivatives(*state)
        require_tangent(function.robot, state[0], forward[0][k].numpy(), by_q)
        for block, own in zip(forward[1:], others, strict=True):
            assert np.allclose(block[k], own, rtol=0, atol=1e-9 * max(1, np.abs(own).max()))
    for a, b in zip(forward, backward, strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-12 * max(1, np.abs(a.numpy()).max()))


@pytest.mark.parametrize(("name", "quantity"), CHECKED)
def test_derivatives_by_differences(torch, name, quantity):
    function, states = built(name, quantity)
    tensors = [torch.tensor(array[:2], requires_grad=True) for array in states]
    bridge = function.torch(order=2)
    steps = {"eps": 1e-7, "atol": 1e-4, "rtol": 1e-4}  # larger ones would open the loops
    assert torch.autograd.gradcheck(bridge, tensors, **steps, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(bridge, tensors, **steps)


def test_derivatives_beyond_the_order(torch):
    function, states = built("panda7", "gravity_torque")
    q = torch.tensor(states[0][0], requires_grad=True)
    with pytest.raises(TypeError, match="order"):
        function.torch(order=0)(q).sum().backward()
    (gradient,) = torch.autograd.grad(function.torch()(q).sum(), q, create_graph=True)
    with pytest.raises(TypeError, match="order"):
        gradient.sum().backward()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_vmap_compile_and_batches(torch, dtype):
    function, states = built("panda7", "inverse_dynamics")
    bridge = function.torch()
    q, qd, qdd = (torch.from_numpy(array).to(getattr(torch, dtype)) for array in states)
    batch, eps = bridge(q, qd, qdd=qdd), np.finfo(dtype).eps
    assert batch.dtype == q.dtype
    assert np.allclose(batch, function(*states), rtol=0, atol=100 * eps * batch.abs().max())
    assert (torch.func.vmap(bridge)(q, qd, qdd) == batch).all()
    assert (
        bridge(q.reshape(2, 2, 7), qd.reshape(2, 2, 7), qdd.reshape(2, 2, 7)) == batch.reshape(2, 2, 7)
    ).all()
    one = bridge(q, qd[0], qdd[0])
    assert (torch.func.vmap(bridge, in_dims=(0, None, None))(q, qd[0], qdd[0]) == one).all()
    assert (torch.func.vmap(bridge, in_dims=(1, None, None))(q.T, qd[0], qdd[0]) == one).all()
    compiled = torch.compile(lambda *state: 2 * bridge(*state), backend="aot_eager", fullgraph=True)
    assert (compiled(q, qd, qdd) == 2 * batch).all()
    leaves = [array.clone().requires_grad_() for array in (q, qd, qdd)]
    compiled(*leaves).sum().backward()
    right = [array.clone().requires_grad_() for array in (q, qd, qdd)]
    (2 * bridge(*right)).sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(leaves, right, strict=True))
    gradient = torch.func.grad(lambda *state: (bridge(*state) ** 2).sum())
    each = torch.stack([gradient(*state) for state in zip(q, qd, qdd, strict=True)])
    for own in (gradient(q, qd, qdd), torch.func.vmap(gradient)(q, qd, qdd)):
        assert own.dtype == q.dtype and np.allclose(own, each, rtol=0, atol=100 * eps * each.abs().max())


def test_operator(torch):
    from dynamics_node.functions.bridges.torch import operator

    function, states = built("five_bar", "inverse_dynamics")
    bridge = function.torch()
    tensors = [torch.tensor(array, requires_grad=True) for array in states]
    checks = torch.library.opcheck(operator(), (bridge.number, tensors))
    assert len(checks) >= 4 and set(checks.values()) == {"SUCCESS"}


def test_several_results(torch):
    function, (q,) = built("panda7", "frame_pose", link="panda_hand")
    pose, right = function.torch()(q), function(q)
    assert type(pose) is type(right)
    assert all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(pose, right, strict=True))


def test_arguments(torch):
    function, states = built("panda7", "inverse_dynamics")
    bridge = function.torch()
    assert bridge([0] * 7, [0] * 7, [1] * 7).dtype == torch.get_default_dtype()
    mixed = bridge(*(array.astype(kind) for array, kind in zip(states, "fdf", strict=True)))
    assert mixed.dtype == torch.float64
    with pytest.raises(dn.InputError, match="qd has the shape"):
        bridge(states[0], states[1][:, :6], states[2])
    with pytest.raises(dn.InputError, match="qd is on meta"):
        bridge(states[0], torch.zeros(4, 7, device="meta"), states[2])
    for wrong in (states[:2], (*states, states[0])):
        with pytest.raises(TypeError, match="q, qd, qdd"):
            bridge(*wrong)


def test_singular_states_are_nan(torch):
    function = dn.build(
        robot_of("panda7"), "operational_space_inertia", backend="numpy", links=["panda_hand"]
    )
    q = np.array([[0.0] * 7, [0.1, 0.2, 0.3, -1, 0.5, 1, 0.7], [np.nan] * 7])
    for own, right in zip(function.torch(order=0)(q), function(q, errors="nan"), strict=True):
        assert np.isnan(own[0]).all() and np.isnan(own[2]).all() and np.isfinite(own[1]).all()
        assert np.allclose(own, right, rtol=1e-9, equal_nan=True)


def test_many_states(torch):
    """In vectors, but for those around a singular one."""
    function = dn.build(
        robot_of("panda7"), "operational_space_inertia", backend="numpy", links=["panda_hand"]
    )
    q = np.random.default_rng(3).uniform(-1, 1, (600, 7))
    q[300] = 0
    results, right = function.torch(order=0)(q), function(q, errors="nan")
    assert np.isnan(right[0][300]).all() and np.isfinite(right[0]).sum() > 599 * 30
    for own, reference in zip(results, right, strict=True):
        assert np.allclose(own, reference, rtol=1e-7, equal_nan=True)


def test_pickle_and_threads(torch):
    function, states = built("five_bar", "forward_dynamics")
    bridge = pickle.loads(pickle.dumps(function.torch()))
    right = function(*states)

    def work(k):
        state = [array[k] for array in states]
        return all(np.allclose(bridge(*state), right[k], rtol=1e-10) for _ in range(300))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(4)))


def test_memory_does_not_grow(torch):
    function, states = built("panda7", "inverse_dynamics")
    bridge, state = function.torch(), [torch.tensor(array[0], requires_grad=True) for array in states]
    for _ in range(1000):
        bridge(*state)
    before = resident()
    for _ in range(CALLS):
        bridge(*state)
    assert resident() - before < GROWTH


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"dynamics_node\[torch\].*torch>=2"):
        built("five_bar", "gravity_torque")[0].torch()
