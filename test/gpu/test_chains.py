"""The kernel of long chains: run as C by threads that take turns, on a device where there is one, and compiled by NVRTC;
beside ABA and the arrays of CFA."""

import pickle

import by_nvrtc
import numpy as np
import pytest
from parallel_robots import chain, states, tree
from text_in_c import as_c, by_coroutines
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import aba
from dynamics_node.chains import RobotArrays, forward_dynamics
from dynamics_node.chains.chain_kernel import REAL, chain_kernel, laid_out, refuse_kernel
from dynamics_node.codegen.cuda import lost


def by_c(model, q, qd, tau, gravity, f_ext=None, corrections=1, text=None, backward=False):
    """qdd (count, n) of a chain whose links are in order. text: by default that of the kernel."""
    kernel, dtype = chain_kernel(model.nbodies), np.dtype(np.float64)
    sizes, arrays = laid_out(RobotArrays(model), dtype, q, qd, tau, gravity, f_ext)
    accelerations = np.full(q.shape, 7.0)
    given = [*map(np.int32, (*sizes, corrections)), *arrays, accelerations]
    by_coroutines(text or kernel.text, kernel.name, len(q), [as_c(a) for a in given], backward)
    return accelerations


@pytest.mark.parametrize("n, sliding", [(1, 0.0), (2, 1.0), (33, 0.3)])
def test_chains_by_their_kernel(n, sliding):
    """With one correction as ABA; alone as odd-even elimination by NumPy, which loses as many digits."""
    model = chain(n, sliding)
    q, qd, tau, f_ext = states(model, count := 2 if n < 33 else 1)
    gravity = np.random.default_rng(1).uniform(-9, 9, (count, 3))
    for wrenches, g in ((f_ext, gravity), (f_ext[0], model.gravity)):
        expected = aba(model, q, qd, tau, f_ext=wrenches, gravity=g)[0]
        assert error(by_c(model, q, qd, tau, g, wrenches), expected).max() <= EXACT
    expected = aba(model, q, qd, tau)[0]
    alone = error(by_c(model, q, qd, tau, model.gravity, corrections=0), expected).max()
    by_numpy = forward_dynamics(np, RobotArrays(model), q, qd, tau, corrections=0, tridiagonal="oee")
    assert alone <= 30 * max(1e-13, error(by_numpy, expected).max())


def test_no_thread_sees_what_it_should_not():
    """The order of threads does not matter; without any one of the barriers it does."""
    model, kernel = chain(3, 0.5, seed=2), chain_kernel(3)
    q, qd, tau, f_ext = states(model, 1)
    given = (model, q, qd, tau, model.gravity, f_ext)
    right = by_c(*given)
    np.testing.assert_array_equal(by_c(*given, backward=True), right)
    head, own = kernel.text.split("/* Forward dynamics of")
    parts = own.split("BARRIER;")
    assert len(parts) == 13
    for k in range(1, len(parts)):
        text = f"{head}/* Forward dynamics of{'BARRIER;'.join(parts[:k])};{'BARRIER;'.join(parts[k:])}"
        assert any(not np.array_equal(by_c(*given, text=text, backward=b), right) for b in (False, True)), k


def test_what_has_no_kernel():
    for model, why in (
        (chain(4, armature=0.1), "rotor inertias"),
        (chain(4, floating=True), "no chain on a fixed base"),
        (tree((2, 2)), "no chain on a fixed base"),
        (chain(257), "257 links, and a block has threads for 256"),
    ):
        with pytest.raises(dn.ModelError, match=f"{why}.*'numpy'"):
            refuse_kernel(RobotArrays(model))


@pytest.mark.parametrize(
    "precision, n, spilled, arch",
    [("double", 256, 400, 80), ("float", 512, 300, 120)],
)
def test_what_a_thread_takes(precision, n, spilled, arch):
    """Bytes of spills at most; 512 threads leave 128 registers each."""
    kernel = chain_kernel(n, precision)
    taken = by_nvrtc.compiled(kernel.text, arch)
    assert taken.registers * kernel.width <= 65536 and taken.spilled <= spilled
    assert taken.shared == 18 * n * np.dtype(REAL[precision]).itemsize <= 48 * 1024


def test_functions_of_chains(gpu):
    """Also after a pickle, and of another payload; what the kernel has no sines for is computed by arrays."""
    model = chain(3, 0.5)
    q, qd, tau, f_ext = states(model, 2)

    def build(**choices):
        return dn.build(model, dn.forward_dynamics(model), solver="cfa", backend="cuda", **choices)

    forward = pickle.loads(pickle.dumps(build(runtime_parameters=("inertia",))))
    assert (forward.choice.backend, forward.description) == ("cuda", "cfa (oee)")
    far = q.copy()
    far[1, 1] = 1e9
    for positions in (q, far):
        expected = aba(model, positions, qd, tau, f_ext=f_ext)[0]
        assert error(forward(positions, qd, tau, f_ext), expected).max() <= EXACT
    heavier = dn.with_payload(model, "l0_2", 3.0, [0, 0, 0.1], 0.1 * np.eye(3))
    assert error(forward.with_inertias(heavier)(q, qd, tau), aba(heavier, q, qd, tau)[0]).max() <= EXACT
    single = [a.astype(np.float32) for a in (q, qd, tau)]
    accelerations = build(precision="float32")(*single)
    exact = aba(model, *(a.astype(float) for a in single))[0]
    assert accelerations.dtype == np.float32 and 1e-9 < error(accelerations, exact).max() < 1e-3
    assert lost() is None


@pytest.mark.parametrize("solver, ordering", [("cfa", "oee"), ("cfa", "cr"), ("jsiia", "best")])
def test_numpy_goes_on_when_the_device_is_lost(stand_in, solver, ordering):
    model = chain(3, 0.5)
    q, qd, tau, _ = states(model, 2)
    what = dn.forward_dynamics(model)
    forward = dn.build(model, what, solver=solver, ordering=ordering, backend="cuda")
    stand_in.fault.plan(0)
    for _ in range(2):
        assert error(forward(q, qd, tau), aba(model, q, qd, tau)[0]).max() <= EXACT
    assert lost()
