"""Functions in PyTorch: results, derivatives, vmap, compilation."""

import compilers
import numpy as np
import pytest
from bridged import CASES, built, require_tangent

import dynamics_node as dn

compilers.require("cc", module=True)
CHECKED = [("five_bar", "forward_dynamics"), ("solo12", "gravity_torque")]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="pip install torch")


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


def test_an_argument_on_another_device(torch):
    function, states = built("panda7", "inverse_dynamics")
    with pytest.raises(dn.InputError, match="qd is on meta"):
        function.torch()(states[0], torch.zeros(4, 7, device="meta"), states[2])
