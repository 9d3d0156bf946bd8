"""Rollouts by cuda: a launch for every stage, by CuPy's stand-in, and on a device where there is one."""

import by_nvrtc
import numpy as np
import pytest
from device_arrays import Tensor
from parallel_robots import chain, states, tree

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.algorithms.integrators import integrator_of
from dynamics_node.codegen.printer import Variant, kernel

COUNT, STEPS, DT = 100, 3, 0.01
ROBOTS = {"arm": lambda: chain(3, 0.3), "floating": lambda: tree((1, 1), floating=True)}


def given_to(model, dtype=np.float64):
    """q, qd, tau."""
    q, qd, u, _ = states(model, COUNT)
    return [a.astype(dtype) for a in (q, qd, np.stack([u, -u, 2 * u], axis=1))]


@pytest.mark.parametrize(("name", "integrator"), [("arm", "semi_implicit_euler"), ("floating", "rk4")])
def test_what_c_computes(gpu, name, integrator):
    model = ROBOTS[name]()
    on_gpu, on_cpu = (dn.build(model, "forward_dynamics", backend=way) for way in ("cuda", "c"))
    given = given_to(model)
    right = on_cpu.rollout(*given, DT, integrator=integrator)
    there = on_gpu.rollout(*map(gpu.cupy.asarray, given), DT, integrator=integrator)
    for results in (on_gpu.rollout(*given, DT, integrator=integrator), [array.get() for array in there]):
        for result, expected in zip(results, right, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)


def test_devices_take_the_kernel():
    """As text for the newest of them; nothing is spilled."""
    model = ROBOTS["floating"]()
    (forward, *_) = dynamics_programs(model, dn.forward_dynamics(model)).values()
    program, _ = integrator_of(model, forward, "rk4")
    made = kernel(program, Variant("double", "columns"), same=("dt", "gravity", "stage"), quaternions=[3])
    assert by_nvrtc.compiled(made.text, by_nvrtc.ARCHS[-1]).spilled == 0


def test_types_states_that_diverge_and_places(gpu):
    model = ROBOTS["floating"]()
    forward = dn.build(model, "forward_dynamics", backend="cuda")
    q, qd, tau = given_to(model, np.float32)
    right = forward.rollout(*map(gpu.cupy.asarray, (q, qd, tau)), DT).q.get()
    assert right.dtype == np.float32 and right.shape == (COUNT, STEPS + 1, model.nq)
    tau[7, 1] = np.inf
    q[8, 3:7] *= 1.1
    bad = forward.rollout(*map(gpu.cupy.asarray, (q, qd, tau)), DT).q.get()
    others = ~np.isin(np.arange(COUNT), (7, 8))
    assert np.array_equal(bad[others], right[others]) and np.array_equal(bad[7, :2], right[7, :2])
    assert np.isnan(bad[7, 2:]).all() and np.isnan(bad[8, 1:]).all()
    with pytest.raises(dn.InputError, match="controls does not lie on the device"):
        forward.rollout(gpu.cupy.asarray(q), gpu.cupy.asarray(qd), tau, DT)
    with pytest.raises(dn.InputError, match="build it with backend='cuda'"):
        dn.build(model, "forward_dynamics", backend="c").rollout(*map(gpu.cupy.asarray, (q, qd, tau)), DT)


def test_arrays_of_another_library(stand_in):
    model = ROBOTS["arm"]()
    forward = dn.build(model, "forward_dynamics", backend="cuda")
    given = given_to(model)
    result = forward.rollout(*map(Tensor, given), DT)
    assert isinstance(result.q, Tensor)
    assert np.array_equal(result.q.array, forward.rollout(*given, DT).q)
    q, qd, tau = given
    for arrays, words in (
        ((q, qd, tau[:, :, 1:]), "controls must have shape"),
        ((q, qd[1:], tau), "qd0 must have shape"),
        ((q, qd.astype(np.float32), tau), "qd0 is of float32"),
    ):
        with pytest.raises(dn.InputError, match=words):
            forward.rollout(*map(Tensor, arrays), DT)


def test_a_device_that_is_lost(stand_in, caplog):
    """The CPU goes on, with the same results."""
    model = ROBOTS["arm"]()
    forward = dn.build(model, "forward_dynamics", backend="cuda")
    given = given_to(model)
    right = forward.rollout(*given, DT)
    stand_in.fault.plan(3)
    for _ in range(2):
        again = forward.rollout(*given, DT)
        np.testing.assert_allclose(again.q, right.q, rtol=1e-12, atol=1e-12)
    assert caplog.text.count("the GPU is lost") == 1
