"""Functions in JAX and PyTorch with arrays on a GPU: by CuPy's stand-in, to which memory of the CPU is that of a
device, and on a device where there is one."""

import pickle
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace

import by_nvrtc
import numpy as np
import pytest
from device_arrays import DeviceArray
from parallel_robots import chain, states, tree

import dynamics_node as dn
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.functions.bridges.compiled_entry import CompiledEntry

COUNT, STREAM = 70, 4321
ARGUMENTS = (0, 1, 2)


def arm():
    model = chain(3, 0.3)
    return model, states(model, COUNT)[:3]


def floating():
    model = tree((1, 1), floating=True)
    return model, states(model, COUNT)[:3]


def five_bar():
    robots = pytest.importorskip("dynamics_demo.robots")
    model, random = dn.parse_robot(robots.five_bar(robots.UPRIGHT)), np.random.default_rng(0)
    q = np.stack([dn.close_loops(model, x) for x in random.uniform(-0.3, 0.3, (COUNT, model.nq))])
    return model, (q, *random.uniform(-1, 1, (2, COUNT, model.nv)))


def functions(robot, quantity="forward_dynamics"):
    """The same by cuda and by c, and arguments."""
    model, given = robot()
    return *(dn.build(model, quantity, backend=way) for way in ("cuda", "c")), given


def close(result, right, tolerance=1e-9):
    result, right = map(np.asarray, (result, right))
    np.testing.assert_allclose(result, right, rtol=tolerance, atol=tolerance * np.abs(right).max())


def shares_memory(gpu, monkeypatch, kind):
    """The stand-in takes arrays of a kind as they lie, as CuPy does on a device."""
    own = gpu.cupy.asarray

    def asarray(array, dtype=None):
        return DeviceArray(np.asarray(array)) if isinstance(array, kind) else own(array, dtype)

    monkeypatch.setattr(gpu.cupy, "asarray", asarray, raising=False)


@pytest.fixture
def streams(gpu, monkeypatch):
    """Addresses of the current streams of CuPy's stand-in when kernels are launched."""
    if gpu.real:
        return {STREAM}
    used, own = set(), gpu.cupy.RawKernel.__call__

    def launch(*arguments):
        used.add(gpu.cupy.cuda.get_current_stream().ptr)
        own(*arguments)

    monkeypatch.setattr(gpu.cupy.RawKernel, "__call__", launch)
    return used


@pytest.fixture(scope="module")
def pytorch():
    """With what it imports late, which does not take the stand-in for CuPy."""
    pytest.importorskip("torch._dynamo", reason="pip install torch")
    with suppress(ImportError):
        import_module("cupyx")
    return import_module("torch")


@pytest.fixture
def torch(pytorch, gpu, monkeypatch):
    """PyTorch, and `there`: a tensor on the device."""
    module = pytorch
    if gpu.real:
        if not module.cuda.is_available():
            pytest.skip("PyTorch for the CPU alone")
        return SimpleNamespace(module=module, there=lambda array: module.tensor(array, device="cuda"))
    shares_memory(gpu, monkeypatch, module.Tensor)
    monkeypatch.setattr(module.Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(module.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=STREAM))
    return SimpleNamespace(module=module, there=module.tensor)


@pytest.fixture
def jax(gpu, monkeypatch):
    """JAX with float64, which computes on a device."""
    jax = pytest.importorskip("jax", reason="pip install jax")
    from jax.experimental import buffer_callback

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    if gpu.real:
        if jax.default_backend() != "gpu":
            pytest.skip("JAX for the CPU alone")
    else:
        shares_memory(gpu, monkeypatch, buffer_callback.Buffer)
        own, context = buffer_callback.buffer_callback, SimpleNamespace(stream=STREAM)
        monkeypatch.setattr(
            buffer_callback,
            "buffer_callback",
            lambda launch, results, **options: own(
                lambda _, *places_and_arrays: launch(context, *places_and_arrays), results, **options
            ),
        )
        monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arrays, cuda, default: cuda(*arrays))
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(("robot", "quantity"), [(arm, "forward_dynamics"), (five_bar, "inverse_dynamics")])
def test_kernels_of_results_and_derivatives(gpu, robot, quantity):
    on_gpu, on_cpu, given = functions(robot, quantity)
    given[1][3] = np.nan
    right, code = on_cpu(*given, errors="nan"), CompiledEntry.of(on_gpu, 1)
    assert np.isnan(right[3]).all() and code.takes_cuda and not CompiledEntry.of(on_cpu, 1).takes_cuda
    there, stream = [gpu.cupy.asarray(array) for array in given], gpu.cupy.cuda.Stream(non_blocking=True)
    derived, called = code.derivative()
    results = [[gpu.cupy.empty((COUNT, *a.shape)) for a in one.entry.outputs] for one in (code, derived)]
    gpu.cupy.cuda.get_current_stream().synchronize()
    code.launch(stream.ptr, there, results[0])
    derived.launch(stream.ptr, there, results[1])
    stream.synchronize()
    np.testing.assert_allclose(results[0][0].get(), right, rtol=1e-9, atol=1e-9 * np.nanmax(np.abs(right)))
    blocks = [result.get() for result in results[1]]
    assert [argument for _, argument in called] == ["q", "qd", "tau" if robot is arm else "qdd"]
    for k, block in enumerate(on_cpu.derivatives()(*given, errors="nan")):
        if k or robot is arm:  # else by the numbers of q, not along velocities
            scale = np.nanmax(np.abs(block))
            np.testing.assert_allclose(blocks[k], block, rtol=1e-8, atol=1e-8 * scale)


def test_devices_take_the_kernel_of_derivatives():
    """As text for the newest of them; nothing is spilled."""
    model, _ = arm()
    derived, _ = CompiledEntry.of(dn.build(model, "inverse_dynamics", backend="numpy"), 1).derivative()
    made = kernel(derived.entry.program, Variant("float", "rows"), same=(), quaternions=())
    assert by_nvrtc.compiled(made.text, by_nvrtc.ARCHS[-1]).spilled == 0


@pytest.mark.parametrize("robot", [arm, five_bar])
def test_in_pytorch(gpu, torch, streams, robot):
    on_gpu, on_cpu, given = functions(robot)
    bridge, func, tensors = on_gpu.torch(), torch.module.func, [torch.there(array) for array in given]
    result = bridge(*tensors)
    assert result.device == tensors[0].device
    close(result.cpu(), on_cpu(*given))
    forward = func.vmap(func.jacfwd(bridge, ARGUMENTS))(*tensors)
    backward = func.vmap(func.jacrev(bridge, ARGUMENTS))(*tensors)
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    bridge(*leaves).sum().backward()
    for k, right in enumerate(on_cpu.derivatives()(*given)):
        close(forward[k].cpu(), backward[k].cpu())
        close(leaves[k].grad.cpu(), backward[k].sum(1).cpu())
        if k or robot is arm:
            close(forward[k].cpu(), right)
    assert streams == {STREAM}


def test_compilation_types_and_pickles_in_pytorch(torch):
    on_gpu, on_cpu, given = functions(arm, "inverse_dynamics")
    bridge, right = pickle.loads(pickle.dumps(on_gpu.torch())), on_cpu(*given)
    tensors = [torch.there(array) for array in given]
    compiled = torch.module.compile(lambda *state: 2 * bridge(*state), backend="aot_eager", fullgraph=True)
    close(compiled(*tensors).cpu(), 2 * right)
    small = bridge(*(tensor.float() for tensor in tensors))
    assert small.dtype == torch.module.float32
    close(small.cpu(), right, 1e-4)
    close(
        bridge(tensors[0][::2], tensors[1][0], tensors[2][::2]).cpu(),
        on_cpu(given[0][::2], given[1][0], given[2][::2]),
    )
    assert bridge(*(tensor[:0] for tensor in tensors)).shape == (0, 3)


def test_tensors_elsewhere_are_named(pytorch, stand_in):
    on_gpu, on_cpu, _ = functions(arm, "inverse_dynamics")
    on_gpu, on_cpu = on_gpu.torch(), on_cpu.torch()
    with pytorch._subclasses.FakeTensorMode():
        here, there, far = (pytorch.zeros(3, device=device) for device in ("cpu", "cuda", "meta"))
        with pytest.raises(dn.InputError, match=r"qd is on cuda.*backend='cuda'"):
            on_cpu(here, there, there)
        with pytest.raises(dn.InputError, match=r"qd is on cuda.* q on cpu"):
            on_gpu(here, there, there)
        with pytest.raises(dn.InputError, match="q is on meta"):
            on_gpu(far, far, far)


@pytest.mark.parametrize("robot", [arm, five_bar])
def test_in_jax(gpu, jax, streams, robot):
    on_gpu, on_cpu, given = functions(robot)
    bridge = on_gpu.jax()
    close(bridge(*given), on_cpu(*given))
    forward = jax.vmap(jax.jacfwd(bridge, ARGUMENTS))(*given)
    backward = jax.jit(jax.vmap(jax.jacrev(bridge, ARGUMENTS)))(*given)
    for k, right in enumerate(on_cpu.derivatives()(*given)):
        close(forward[k], backward[k])
        if k or robot is arm:
            close(forward[k], right)
    assert streams == {STREAM}
    small = bridge(*(array.astype(np.float32) for array in given))
    assert small.dtype == np.float32
    close(small, on_cpu(*given), 1e-3)
    assert bridge(*(array[:0] for array in given)).shape == (0, on_cpu.robot.nv)


def test_what_jax_calls_on_each_platform(stand_in):
    jax = pytest.importorskip("jax", reason="pip install jax")
    on_gpu, on_cpu, given = functions(arm)

    def text(function, platform):
        return jax.jit(function.jax()).trace(*given).lower(lowering_platforms=(platform,)).as_text()

    launching, target = "xla_buffer_python_gpu_callback", "custom_call @dynamics_node_"
    for function, platform, expected in (
        (on_gpu, "cuda", launching),
        (on_gpu, "cpu", target),
        (on_cpu, "cuda", target),
        (on_cpu, "cpu", target),
    ):
        lowered = text(function, platform)
        assert [call in lowered for call in (launching, target)] == [
            expected == launching,
            expected == target,
        ]
    close(on_gpu.jax()(*given), on_cpu(*given), 1e-4)
    assert stand_in.launches == []
