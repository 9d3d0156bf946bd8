"""Functions in JAX: results, derivatives, jit, vmap."""

import compilers
import numpy as np
import pytest
from bridged import CASES, built, float64_in_jax, require_tangent
from robots import robot_of

import dynamics_node as dn

compilers.require("cc", module=True)


@pytest.fixture(scope="module")
def jax():
    """With float64."""
    module = pytest.importorskip("jax", reason="pip install jax")
    with float64_in_jax():
        yield module


@pytest.mark.parametrize(("name", "quantity"), CASES)
def test_results_and_derivatives(jax, name, quantity):
    function, states = built(name, quantity)
    bridge, derivatives = function.jax(), function.derivatives()
    right = function(*states)
    assert np.allclose(bridge(*states), right, rtol=0, atol=1e-11 * max(1, np.abs(right).max()))
    arguments = tuple(range(len(states)))
    forward = jax.vmap(jax.jacfwd(bridge, arguments))(*states)
    backward = jax.vmap(jax.jacrev(bridge, arguments))(*states)
    for k, state in enumerate(zip(*states, strict=True)):
        by_q, *others = derivatives(*state)
        require_tangent(function.robot, state[0], np.array(forward[0][k]), by_q)
        for block, own in zip(forward[1:], others, strict=True):
            assert np.allclose(block[k], own, rtol=0, atol=1e-9 * max(1, np.abs(own).max()))
    for a, b in zip(forward, backward, strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-12 * max(1, np.abs(a).max()))


@pytest.mark.parametrize(
    ("name", "quantity"), [("five_bar", "forward_dynamics"), ("solo12", "gravity_torque")]
)
def test_second_derivatives_by_differences(jax, name, quantity):
    from jax.test_util import check_grads

    function, states = built(name, quantity)
    state = [jax.numpy.asarray(array[0]) for array in states]
    bridge = function.jax(order=2)  # larger steps would open the loops
    check_grads(bridge, state, order=2, modes=("fwd", "rev"), rtol=1e-4, atol=1e-4, eps=1e-7)


def test_derivatives_beyond_the_order(jax):
    function, states = built("panda7", "gravity_torque")
    with pytest.raises(TypeError, match="order"):
        jax.jacfwd(function.jax(order=0))(states[0][0])
    with pytest.raises(TypeError, match="order"):
        jax.jacfwd(jax.jacfwd(function.jax()))(states[0][0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_vmap_jit_and_eager(jax, dtype):
    function, states = built("panda7", "inverse_dynamics")
    bridge, (q, qd, qdd) = function.jax(), [array.astype(dtype) for array in states]
    batch = bridge(q, qd, qdd)
    assert batch.dtype == dtype
    assert np.allclose(batch, function(*states), rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(batch).max())
    with jax.disable_jit():
        assert (bridge(q, qd, qdd) == batch).all()
    assert (jax.jit(bridge)(q, qd, qdd=qdd) == batch).all()
    assert (jax.vmap(bridge)(q, qd, qdd) == batch).all()
    assert (
        bridge(q.reshape(2, 2, 7), qd.reshape(2, 2, 7), qdd.reshape(2, 2, 7)) == batch.reshape(2, 2, 7)
    ).all()
    assert (jax.vmap(bridge, in_axes=(0, None, None))(q, qd[0], qdd[0]) == bridge(q, qd[0], qdd[0])).all()
    assert (jax.vmap(bridge, in_axes=(1, None, None))(q.T, qd[0], qdd[0]) == bridge(q, qd[0], qdd[0])).all()
    gradient = jax.grad(lambda *state: (bridge(*state) ** 2).sum())
    each = jax.numpy.stack([gradient(*state) for state in zip(q, qd, qdd, strict=True)])
    for own in (gradient(q, qd, qdd), jax.vmap(gradient)(q, qd, qdd), jax.jit(gradient)(q, qd, qdd)):
        assert own.dtype == dtype
        assert np.allclose(own, each, rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(each).max())


def test_derivative_of_a_matrix(jax):
    function, (q,) = built("panda7", "frame_pose", link="panda_hand")
    turned = jax.vmap(jax.jacfwd(lambda x: function.jax()(x).rotation))(q)
    assert turned.shape == (4, 3, 3, 7) and np.abs(turned).max() > 0.1


def test_error_on_a_gpu(jax):
    """What is registered there, called here."""
    from dynamics_node.functions.bridges.compiled_entry import CompiledEntry, text_of

    function, states = built("five_bar", "gravity_torque")
    flags = (f"-I{jax.ffi.include_dir()}",)
    library = CompiledEntry.of(function, 0).library(np.float64, text_of("handler.c"), flags, jax.__version__)
    jax.ffi.register_ffi_target("on_a_gpu", jax.ffi.pycapsule(library.on_a_gpu), platform="cpu")
    call = jax.ffi.ffi_call("on_a_gpu", jax.ShapeDtypeStruct((2,), np.float64))
    with pytest.raises(RuntimeError, match=r"run on the CPU.*default_device"):
        jax.block_until_ready(call(states[0][0]))


@pytest.mark.parametrize("quantity", ["inverse_dynamics", "forward_dynamics"])
def test_derivatives_of_many_states(jax, quantity):
    function = dn.build(robot_of("panda7"), quantity, backend="numpy")
    states = np.random.default_rng(3).uniform(-1, 1, (3, 300, 7))
    blocks = jax.jit(jax.vmap(jax.jacfwd(function.jax(), (0, 1, 2))))(*states)
    for own, right in zip(blocks, function.derivatives()(*states), strict=True):
        assert np.allclose(own, right, rtol=0, atol=1e-9 * np.abs(right).max())
