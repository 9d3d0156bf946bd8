"""Arrays that lie on a GPU: on CuPy's stand-in, and on a device where there is one."""

import numpy as np
import pytest
from device_arrays import Tensor, real_cupy
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import ArrayError, make_runner, on_device
from dynamics_node.codegen.cuda import lost
from dynamics_node.codegen.printer import KernelSource

COUNTS = (1, 127, 129, 1000)


def made():
    return make_runner(swinging(), "cuda", parameters())


def expected(given):
    return on_cpu().run_checked(len(given[0]), given, given[0].dtype)[0]


def same(results, right, dtype=np.float64):
    tolerance = {np.float64: 1e-13, np.float32: 1e-5}[dtype]
    for result, array in zip(results, right, strict=True):
        assert result.dtype == dtype and result.shape == array.shape
        np.testing.assert_allclose(result.get(), array, rtol=tolerance, atol=tolerance)


def in_columns(gpu, array):
    """The same array, an entry of all states side by side."""
    return gpu.cupy.asarray(np.ascontiguousarray(np.moveaxis(array, 0, -1))).transpose()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", COUNTS)
def test_rows_come_in_and_go_out(gpu, count, dtype):
    a, b, g = given = states(count, dtype)
    results, bad = made().on_device([gpu.cupy.asarray(a), gpu.cupy.asarray(b), g], raises=True)
    same(results, expected(given), dtype)
    assert bad is None and results[0].flags.c_contiguous and isinstance(results[0], gpu.cupy.ndarray)


@pytest.mark.parametrize("count", COUNTS[1:])
def test_columns_come_in_and_go_out(gpu, count):
    a, b, g = given = states(count)
    results, _ = made().on_device([in_columns(gpu, a), in_columns(gpu, b), g])
    same(results, expected(given))
    assert results[0].T.flags.c_contiguous


def test_other_layouts_are_copied(gpu):
    a, b, g = given = states(200)
    wide = gpu.cupy.asarray(np.repeat(a, 2, axis=1))
    results, _ = made().on_device([wide[:, ::2], in_columns(gpu, b), g])
    same(results, expected(given))
    assert results[0].flags.c_contiguous


def test_axes_of_the_batch_are_kept(gpu):
    a, b, g = given = states(60)
    shaped = [gpu.cupy.asarray(array.reshape(4, 15, 3)) for array in (a, b)]
    results, _ = made().on_device([*shaped, g])
    same(results, [array.reshape(4, 15, *array.shape[1:]) for array in expected(given)])
    (x, y), _ = made().on_device([gpu.cupy.asarray(a[0]), gpu.cupy.asarray(b[0]), g])
    assert x.shape == (3,) and y.shape == ()
    (x, y), bad = made().on_device([gpu.cupy.asarray(a[:0]), gpu.cupy.asarray(b[:0]), g], raises=True)
    assert x.shape == (0, 3) and y.shape == (0,) and bad is None


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_results_are_written_where_the_caller_says(gpu, layout):
    a, b, g = given = states(300)
    place = gpu.cupy.asarray(np.zeros((300, 6)))[:, ::2]
    if layout != "strided":
        zeros = np.zeros((300, 3))
        place = in_columns(gpu, zeros) if layout == "columns" else gpu.cupy.asarray(zeros)
    put = in_columns if layout == "columns" else lambda gpu, array: gpu.cupy.asarray(array)
    out = place, gpu.cupy.asarray(np.zeros(300))
    results, _ = made().on_device([put(gpu, a), put(gpu, b), g], out)
    assert all(one is other for one, other in zip(results, out, strict=True))
    same(out, expected(given))


def test_the_first_state_without_a_result(gpu):
    a, b, g = states(2000)
    a[[1500, 700]] = np.nan
    a[800, 0] = 1e12  # an angle beyond the sine
    b[900, 1] = 2.5  # health
    (x, _), bad = made().on_device([gpu.cupy.asarray(a), gpu.cupy.asarray(b), g], raises=True)
    assert bad == 700
    assert np.flatnonzero(np.isnan(x.get()).all(axis=1)).tolist() == [700, 800, 900, 1500]
    assert made().on_device([in_columns(gpu, a), in_columns(gpu, b), g], raises=True)[1] == 700


def test_batches_larger_than_the_indices_of_a_kernel(stand_in, monkeypatch):
    monkeypatch.setattr(KernelSource, "most_states", 256)
    a, b, g = states(300)
    with pytest.raises(ArrayError, match=r"300 states.* 256"):
        made().on_device([stand_in.cupy.asarray(a), stand_in.cupy.asarray(b), g])
    assert made().call_batch(300, [a, b, g], a.dtype)[0].shape == (300, 3)


def test_work_is_given_to_the_current_stream(gpu):
    """Arrays that the stream makes are there for it, though nobody waits."""
    given = states(100_000)
    stream = gpu.cupy.cuda.Stream(non_blocking=True)
    with stream:
        there = [gpu.cupy.asarray(array) for array in given[:2]]
        results, _ = made().on_device([*there, given[2]])
    stream.synchronize()
    same(results, expected(given))


def test_arrays_of_another_library_come_back_as_its_own(stand_in):
    a, b, g = given = states(100)
    out = Tensor(np.zeros((100, 3))), Tensor(np.zeros(100))
    results, _ = made().on_device([Tensor(a), stand_in.cupy.asarray(b), g])
    assert all(type(one) is Tensor for one in results)
    made().on_device([Tensor(a), Tensor(b), g], out)
    for one, other, right in zip(results, out, expected(given), strict=True):
        np.testing.assert_allclose(one.array, right, rtol=1e-13, atol=1e-13)
        np.testing.assert_array_equal(one.array, other.array)


@pytest.mark.device
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_pytorch_and_jax(library):
    real_cupy()
    module = pytest.importorskip(library)
    a, b, g = given = states(1000, np.float32)
    if library == "torch":
        there = [module.tensor(array, device="cuda") for array in (a, b)]
    else:
        there = [module.numpy.asarray(array) for array in (a, b)]
    results, _ = made().on_device([*there, g])
    for one, right in zip(results, expected(given), strict=True):
        assert isinstance(one, type(there[0])) and on_device(one)
        np.testing.assert_allclose(np.asarray(one.cpu() if library == "torch" else one), right, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda xp, a, b, g: [xp.asarray(a), b, g], r"b \(100, 3\) does not lie on the device"),
        (lambda xp, a, b, g: [xp.asarray(a[:50]), xp.asarray(b), g], r"b must have shape \(50, 3\)"),
        (lambda xp, a, b, g: [xp.asarray(a), xp.asarray(b.astype("f4")), g], "b is of float32"),
        (lambda xp, a, b, g: [xp.asarray(a.astype(int)), xp.asarray(b), g], "a is of int64"),
        (lambda xp, a, b, g: [xp.asarray(a), xp.asarray(b), g * np.inf], "gravity is not finite"),
        (lambda xp, a, b, g: [xp.asarray(a), xp.asarray(b), g[:2]], r"gravity \(2,\) does not lie"),
    ],
)
def test_arrays_that_cannot_be_used_are_named(stand_in, spoil, words):
    with pytest.raises(ArrayError, match=words):
        made().on_device(spoil(stand_in.cupy, *states(100)))
    assert stand_in.launches == [] and lost() is None


def test_places_that_do_not_fit_are_named(stand_in):
    a, b, g = states(100)
    given, y = [stand_in.cupy.asarray(a), stand_in.cupy.asarray(b), g], stand_in.cupy.asarray(np.zeros(100))
    for place, words in (
        (stand_in.cupy.asarray(np.zeros((99, 3))), r"out must have shape \(100, 3\)"),
        (stand_in.cupy.asarray(np.zeros((100, 3), np.float32)), "out is of float32"),
        (np.zeros((100, 3)), "out does not lie on the device"),
    ):
        with pytest.raises(ArrayError, match=words):
            made().on_device(given, (place, y))


def test_which_values_lie_on_a_device(stand_in):
    assert on_device(stand_in.cupy.asarray(np.ones(3))) and on_device(Tensor(np.ones(3)))
    assert not any(map(on_device, (np.ones(3), [1.0], None, 3.0, "a")))
