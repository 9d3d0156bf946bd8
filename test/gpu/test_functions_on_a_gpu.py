"""Backend cuda of robots, as users call it, with arrays of NumPy and on the device: by CuPy's stand-in, and on a device
where there is one."""

import pickle
from functools import cache

import numpy as np
import pytest
from device_arrays import real_cupy
from parallel_robots import chain, states, tree
from text_in_c import built
from text_in_c import given as given_to

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.codegen.cuda import compiled, lost
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.codegen.runner import returned

COUNT = 100
WAYS = {
    "inverse": dn.inverse_dynamics,
    "forward": dn.forward_dynamics,
    "hybrid": lambda model: dn.hybrid_dynamics(model, [model.joint_names[0]]),
}


@cache
def arm():
    return chain(3, 0.3)


@cache
def floating():
    return tree((1, 1), floating=True)


def both(model, what, **options):
    """The same by cuda and by c."""
    return [dn.build(model, what, backend=backend, **options) for backend in ("cuda", "c")]


def close(result, expected, tolerance=1e-9):
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * np.nanmax(abs(expected)))


@pytest.mark.parametrize("robot", [arm, floating])
@pytest.mark.parametrize("kind", WAYS)
def test_what_c_computes(gpu, kind, robot):
    model = robot()
    on_gpu, on_cpu = both(model, WAYS[kind](model), f_ext=True)
    q, qd, u, f_ext = states(model, COUNT)
    given = (q, qd, u, 2 * u) if kind == "hybrid" else (q, qd, u)
    assert on_gpu.runner.backend == "cuda"
    for more in ({}, {"f_ext": f_ext}, {"gravity": np.array([0.0, 1.0, -3.0])}):
        right = on_cpu(*given, **more)
        there = {name: gpu.cupy.asarray(a) if name == "f_ext" else a for name, a in more.items()}
        on_device = on_gpu(*map(gpu.cupy.asarray, given), **there)
        pairs = zip(on_device, right, strict=True) if kind == "hybrid" else [(on_device, right)]
        for result, array in pairs:
            close(result.get(), array)
        for result, array in zip(np.array(on_gpu(*given, **more)), np.array(right), strict=True):
            close(result, array)
    assert lost() is None


def test_float32(gpu):
    on_gpu, on_cpu = both(arm(), "forward_dynamics", precision="float32")
    given = [array.astype(np.float32) for array in states(arm(), COUNT)[:3]]
    right = on_cpu(*given)
    assert on_gpu(*given).dtype == np.float32 and on_gpu(*map(gpu.cupy.asarray, given)).dtype == np.float32
    close(on_gpu(*given), right, 1e-3)
    close(on_gpu(*map(gpu.cupy.asarray, given)).get(), right, 1e-3)


def test_quantities_with_several_axes(gpu):
    q, qd, qdd, _ = states(arm(), COUNT)
    mass = both(arm(), "mass_matrix")
    close(mass[0](q), mass[1](q))
    close(mass[0](gpu.cupy.asarray(q)).get(), mass[1](q))
    derivatives = both(arm(), "inverse_dynamics_derivatives")
    there = derivatives[0](*map(gpu.cupy.asarray, (q, qd, qdd)))
    for result, right in zip(there, derivatives[1](q, qd, qdd), strict=True):
        close(result.get(), right)


def test_places_for_results_and_errors(gpu):
    on_gpu, on_cpu = both(floating(), "forward_dynamics")
    q, qd, tau, _ = states(floating(), COUNT)
    q, qd, tau = (array.reshape(20, 5, -1) for array in (q, qd, tau))
    for out in (np.empty(qd.shape), gpu.cupy.asarray(np.empty(qd.shape))):
        given = (q, qd, tau) if isinstance(out, np.ndarray) else map(gpu.cupy.asarray, (q, qd, tau))
        assert on_gpu(*given, out=out) is out
        close(out if isinstance(out, np.ndarray) else out.get(), on_cpu(q, qd, tau))
    qd[3, 2, 1] = np.nan
    q[4, 0, 3:7] *= 1.1
    there = [gpu.cupy.asarray(array) for array in (q, qd, tau)]
    with pytest.raises(dn.InputError, match=r"qd.*finite"):
        on_gpu(q, qd, tau)
    with pytest.raises(dn.SolutionError, match=r"state 17 .*errors='nan'"):
        on_gpu(*there)
    result = on_gpu(*there, errors="nan").get()
    close(result, on_cpu(q, qd, tau, errors="nan"))
    assert np.argwhere(np.isnan(result).any(axis=-1)).tolist() == [[3, 2], [4, 0]]
    with pytest.raises(ValueError, match="errors "):
        on_gpu(*there, errors="ignore")


def test_other_inertias_and_pickles(gpu):
    on_gpu, on_cpu = both(arm(), "forward_dynamics", runtime_parameters=("inertia",))
    given, heavier = states(arm(), COUNT)[:3], dn.with_payload(arm(), "l0_2", 2.0, (0.1, 0, 0.2), np.eye(3))
    on_gpu(*given)
    again = pickle.loads(pickle.dumps(on_gpu))
    assert again.runner._kernels == on_gpu.runner._kernels
    for model in (arm(), heavier):
        right = on_cpu.with_inertias(model)(*given)
        close(again.with_inertias(model)(*given), right)
        close(again.with_inertias(model)(*map(gpu.cupy.asarray, given)).get(), right)


def test_arrays_of_both_sides_are_an_error(stand_in):
    on_gpu, on_cpu = both(arm(), "forward_dynamics")
    q, qd, tau, _ = states(arm(), COUNT)
    there = stand_in.cupy.asarray
    with pytest.raises(dn.InputError, match=r"qd .*device"):
        on_gpu(there(q), qd, tau)
    with pytest.raises(dn.InputError, match="qd.*backend='cuda'"):
        on_cpu(q, there(qd), tau)


def test_arrays_on_a_lost_device_cannot_go_on(stand_in):
    on_gpu, on_cpu = both(arm(), "forward_dynamics")
    given = states(arm(), COUNT)[:3]
    arrays = [stand_in.cupy.asarray(array) for array in given]
    stand_in.fault.plan(0)
    close(on_gpu(*given), on_cpu(*given))
    assert on_gpu.runner.backend == "c, for cuda is lost"
    with pytest.raises(dn.DeviceError, match="lost"):
        on_gpu(*arrays)


@pytest.mark.device
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("way", ["aba", "crba + solve"])
def test_a_device_leaves_the_bits_of_c(way, precision, layout):
    """Where reciprocals are exact."""
    cupy, model = real_cupy(), tree((2, 2), 0.3, floating=True)
    program = dynamics_programs(model, dn.forward_dynamics(model))[way]
    variant = Variant(precision, layout, exact_reciprocal=True)
    made = kernel(program, variant, ("gravity",), model.quaternion_places)
    q, qd, tau, _ = states(model, 1000)
    inputs = {"q": q, "qd": qd, "tau": tau, "gravity": model.gravity}
    inputs = {name: array.astype(variant.dtype) for name, array in inputs.items()}
    right = built(made, "-O0")(1000, inputs, returned(program))["qdd"]
    arguments, _ = given_to(made, 1000, inputs)
    there = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    compiled(made.text, made.name)((made.blocks(1000),), (variant.block,), tuple(there))
    result = there[[argument.kind for argument in made.arguments].index("output")].get()
    np.testing.assert_array_equal(result.T if layout == "columns" else result, right)


def test_any_program(gpu):
    program = dn.build(arm(), "forward_dynamics", backend="c").program
    result = dn.compile(program, backend="cuda", defaults={"gravity": arm().gravity})
    given = states(arm(), COUNT)[:3]
    right = dn.build(arm(), "forward_dynamics", backend="c")(*given)
    close(result(*given), right)
    close(result(*map(gpu.cupy.asarray, given)).get(), right)
