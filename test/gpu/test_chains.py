"""The kernel of long chains: compiled by NVRTC, and what NVRTC makes of it run by NumPy, which looks at every access, beside
ABA and the arrays of CFA."""

import ctypes
import pickle
import re
from functools import cache

import numpy as np
import ptx
import pytest
from fake_cuda import Recorded
from parallel_robots import chain, states, tree
from tolerances import EXACT, error
from with_nvrtc import counts, nvrtc

import dynamics_node as dn
from dynamics_node.algorithms import aba
from dynamics_node.chains import RobotArrays, forward_dynamics
from dynamics_node.chains import chain_kernel as on_cuda
from dynamics_node.chains.chain_kernel import REAL, chain_kernel, laid_out, refuse_kernel
from dynamics_node.codegen.cuda import device as device_of_process
from dynamics_node.codegen.cuda import driver
from dynamics_node.codegen.cuda.device import Device
from dynamics_node.codegen.errors import DeviceError

NVRTC = nvrtc()


# --- run by NumPy -------------------------------------------------------------------------------------------


@cache
def compiled(kernel):
    """PTX of a kernel."""
    return NVRTC.ptx(kernel.text, 90)


def by_ptx(kernel, model, q, qd, tau, gravity, f_ext=None, corrections=1, text=None):
    """qdd (count, n) of a chain whose links are in order. text: PTX, by default the kernel's own. Raises
    Fault (races, barriers, bounds, what nobody has written)."""
    dtype = np.dtype(REAL[kernel.precision])
    sizes, arrays = laid_out(RobotArrays(model), dtype, q, qd, tau, gravity, f_ext)
    memory = ptx.Memory()
    found = memory.allocate(q.size * dtype.itemsize)
    given = [*sizes, corrections, *map(memory.put, arrays), found]
    ptx.run(text or compiled(kernel), kernel.name, len(q), kernel.width, given, memory)
    return memory.get(found, dtype, q.shape)


@pytest.mark.parametrize("n, sliding", [(1, 0.0), (2, 1.0), (33, 0.3)])
def test_chains_by_their_kernel(n, sliding):
    """With one correction as ABA; alone, up to a block of several warps, as odd-even elimination by NumPy,
    which loses as many digits."""
    model, kernel = chain(n, sliding), chain_kernel(n)
    q, qd, tau, f_ext = states(model, count := 2 if n < 33 else 1)
    gravity = np.random.default_rng(1).uniform(-9, 9, (count, 3))
    for wrenches, g in ((f_ext, gravity), (f_ext[0], model.gravity))[: 2 if n < 33 else 1]:
        expected = aba(model, q, qd, tau, f_ext=wrenches, gravity=g)[0]
        assert error(by_ptx(kernel, model, q, qd, tau, g, wrenches), expected).max() <= EXACT
    expected = aba(model, q, qd, tau)[0]
    alone = error(by_ptx(kernel, model, q, qd, tau, model.gravity, corrections=0), expected).max()
    by_numpy = forward_dynamics(np, RobotArrays(model), q, qd, tau, corrections=0, tridiagonal="oee")
    assert alone <= 30 * max(1e-13, error(by_numpy, expected).max())


def test_single_precision():
    model = chain(16)
    q, qd, tau, _ = states(model, 5)
    found = by_ptx(chain_kernel(16, "float"), model, q, qd, tau, model.gravity)
    assert found.dtype == np.float32 and error(found, aba(model, q, qd, tau)[0]).max() <= 1e-3


def without_barriers(kernel):
    """PTX of a kernel without one of the barriers of its text, each in turn, where the compiler put it
    first."""
    lines, line, places = NVRTC.ptx(kernel.text, 90, ("-lineinfo",)).splitlines(), None, {}
    for place, statement in enumerate(lines):
        if told := re.match(r"\s*\.loc\s+\d+\s+(\d+)", statement):
            line = int(told[1])
        elif "bar.sync" in statement:
            places.setdefault(line, place)
    assert len(places) == kernel.text[kernel.text.index("/* Forward dynamics of") :].count("BARRIER;") == 12
    for place in places.values():
        yield "\n".join(
            one
            for k, one in enumerate(lines)
            if k != place and not one.lstrip().startswith((".loc", ".file"))
        )


def test_no_thread_sees_what_it_should_not():
    """Every barrier that is left out is a race."""
    model, kernel = chain(3, 0.5, seed=2), chain_kernel(3)
    q, qd, tau, f_ext = states(model, 1)
    for text in without_barriers(kernel):
        with pytest.raises(ptx.Fault, match="race"):
            by_ptx(kernel, model, q, qd, tau, model.gravity, f_ext, corrections=0, text=text)


# --- compiled -----------------------------------------------------------------------------------------------


def test_what_has_no_kernel():
    for model, why in (
        (chain(4, armature=0.1), "rotor inertias"),
        (chain(4, floating=True), "no chain on a fixed base"),
        (tree((2, 2)), "no chain on a fixed base"),
        (chain(257), "257 links, and a block has threads for 256"),
    ):
        with pytest.raises(dn.ModelError, match=f"{why}.*'numpy'"):
            refuse_kernel(RobotArrays(model))


TAKEN = [
    *(("double", 256, 280, arch) for arch in (80, 120)),
    ("float", 256, 0, 90),
    ("float", 512, 192, 90),
]


@pytest.mark.parametrize("precision, n, spilled, arch", TAKEN)
def test_what_a_thread_takes(precision, n, spilled, arch):
    """Bytes of spills at most; 512 threads leave 128 registers each."""
    counts(NVRTC)
    kernel = chain_kernel(n, precision)
    own = NVRTC.cubin(kernel.text, arch).kernels["chains"]
    assert own.registers * kernel.width <= 65536 and own.spill_stores <= spilled
    assert own.shared == 18 * n * np.dtype(REAL[precision]).itemsize <= 48 * 1024


# --- on the fake driver ---------------------------------------------------------------------------------------


def by_numpy(precision):
    """In place of Device.launch, on the memory of the fake: NVRTC's PTX by NumPy."""
    number = np.dtype(REAL[precision]).itemsize

    def launch(device, function, blocks, threads, arguments, stream):
        n, gravities, wrenches, _ = sizes = [a.value for a in arguments[:4]]
        kernel, joints = chain_kernel(n, precision), blocks * n
        assert threads == kernel.width
        table, gravity, f_ext = 44 * n, 3 * (blocks if gravities else 1), 6 * (joints if wrenches else 1)
        memory, places = ptx.Memory(), [a.value for a in arguments[4:]]
        for place, size in zip(places, (table, gravity, *3 * [joints], f_ext, joints), strict=True):
            assert place % 256 == 0
            memory.adopt(place, np.ctypeslib.as_array((ctypes.c_uint8 * (size * number)).from_address(place)))
        ptx.run(compiled(kernel), kernel.name, blocks, threads, [*sizes, *places], memory)

    return launch


def test_the_way_to_the_device_and_back(fake, monkeypatch):
    """What is held there is given back; what the kernel has no sines for is computed by arrays; also after a
    pickle, of another payload, and in float32."""
    model = chain(3, 0.5)
    q, qd, tau, f_ext = states(model, 2)
    monkeypatch.setattr(on_cuda, "find_nvrtc", lambda newest: Recorded(fake))
    monkeypatch.setattr(Device, "launch", by_numpy("double"))

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
    monkeypatch.setattr(Device, "launch", by_numpy("float"))
    single = [a.astype(np.float32) for a in (q, qd, tau)]
    found = build(precision="float32")(*single)
    exact = aba(model, *(a.astype(float) for a in single))[0]
    assert found.dtype == np.float32 and 1e-9 < error(found, exact).max() < 1e-3
    assert set(fake.held) <= {"module", "context"}

    def launch_at_once(device, function, blocks, threads, arguments, stream):
        answer = np.ascontiguousarray(expected[:, RobotArrays(model).constants.v_at])
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
