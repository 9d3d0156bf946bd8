"""Rollouts with contacts by cuda: the text of C as a kernel, by CuPy's stand-in, and on a device where there is one."""

import by_nvrtc
import numpy as np
import pytest
from device_arrays import Tensor

import dynamics_node as dn
from dynamics_node.algorithms.contact_step import contact_step
from dynamics_node.codegen.cuda.contact_rollout import rollout_text
from dynamics_node.codegen.pd_loops import LoopPlaces

BOX = """
<robot name="box"> <link name="world"/>
  <joint name="slide" type="prismatic"> <parent link="world"/> <child link="post"/> <axis xyz="0 0 1"/>
    <limit lower="-0.05" upper="2" effort="9" velocity="9"/> </joint>
  <link name="post"> <inertial> <mass value="1"/>
    <inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
  <joint name="turn" type="revolute"> <parent link="post"/> <child link="box"/> <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="9" velocity="9"/> <dynamics damping="0.1" friction="0.02"/> </joint>
  <link name="box"> <inertial> <origin xyz="0.05 0 0"/> <mass value="2"/>
    <inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
CORNERS = [
    dn.Contact("box", name="point", xyz=(0.1, 0, -0.1)),
    dn.Contact("box", xyz=(-0.1, 0, -0.1), radius=0.02),
]
COUNT, STEPS, DT = 70, 40, 5e-3


def ground(x, y):
    return 0.02 * np.sin(3 * x) - 0.05


def given(dtype=np.float64):
    """q, qd, tau of robots that fall onto the ground, and against the limits."""
    random = np.random.default_rng(0)
    q = random.uniform((0.1, -0.9), (0.2, 0.9), (COUNT, 2))
    arrays = q, random.uniform(-3, 3, (COUNT, 2)), random.uniform(-5, 5, (COUNT, STEPS, 2))
    return [array.astype(dtype) for array in arrays]


def test_what_c_computes(gpu):
    on_gpu, on_cpu = (dn.build(dn.parse_robot(BOX), "forward_dynamics", backend=b) for b in ("cuda", "c"))
    options = {"contacts": CORNERS, "ground": ground}
    right = on_cpu.rollout(*given(), DT, **options)
    assert (right.contact_forces[:, :, 2] > 0).any() and (right.q[..., 1] > 1 - 1e-6).any()
    there = on_gpu.rollout(*map(gpu.cupy.asarray, given()), DT, **options)
    for results in (on_gpu.rollout(*given(), DT, **options), [array.get() for array in there]):
        for result, expected, name in zip(results, right, right._fields, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_pd_loops_and_states_that_diverge(gpu):
    robot, options = dn.parse_robot(BOX), {"contacts": CORNERS, "pd": dn.PDGains(20.0, 1.0, 4.0)}
    on_gpu, on_cpu = (dn.build(robot, "forward_dynamics", backend=b) for b in ("cuda", "c"))
    q, qd, targets = given()
    bad = qd.copy()
    bad[7] = 1e200
    right = on_cpu.rollout(q, bad, 0.1 * targets, DT, feedforward=targets, **options)
    arrays = map(gpu.cupy.asarray, (q, bad, 0.1 * targets))
    found = on_gpu.rollout(*arrays, DT, feedforward=gpu.cupy.asarray(targets), **options)
    assert np.isnan(found.q.get()[7, 1:]).all() and np.isfinite(found.q.get()[:7]).all()
    np.testing.assert_allclose(found.q.get(), right.q, rtol=1e-6, atol=1e-6)


def test_float32_and_wrong_arrays(gpu):
    robot, options = dn.parse_robot(BOX), {"contacts": CORNERS, "ground": ground}
    forward = dn.build(robot, "forward_dynamics", backend="cuda")
    q, qd, tau = map(gpu.cupy.asarray, given(np.float32))
    single = forward.rollout(q, qd, tau, DT, **options).q.get()
    exact = dn.build(robot, "forward_dynamics", backend="c").rollout(*given(), DT, **options).q
    assert single.dtype == np.float32 and np.median(np.abs(single - exact)[:, -1]) < 1e-4
    for arrays, words in (
        ((q, qd[1:], tau), "qd0 must have shape"),
        ((q, qd, tau[:, :, 1:]), "controls must have shape"),
        ((q, qd, given()[2]), "controls does not lie on the device"),
    ):
        with pytest.raises(dn.InputError, match=words):
            forward.rollout(*arrays, DT, **options)
    with pytest.raises(dn.InputError, match="build it with backend='cuda'"):
        dn.build(robot, "forward_dynamics", backend="c").rollout(q, qd, tau, DT, **options)


def test_arrays_of_another_library(stand_in):
    forward = dn.build(dn.parse_robot(BOX), "forward_dynamics", backend="cuda")
    result = forward.rollout(*map(Tensor, given()), DT, contacts=CORNERS)
    assert isinstance(result.contact_forces, Tensor)
    assert np.array_equal(result.q.array, forward.rollout(*given(), DT, contacts=CORNERS).q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_devices_take_the_kernel(dtype):
    """As text for the newest of them: a robot with limits, friction and a terrain."""
    step = contact_step(dn.parse_robot(BOX), CORNERS, (dn.Terrain(ground),))
    text = rollout_text(step.parts, step.rows, LoopPlaces((), ()), np.dtype(dtype))
    assert by_nvrtc.compiled(text, by_nvrtc.ARCHS[-1]).registers > 0
