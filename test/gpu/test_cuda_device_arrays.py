"""Arrays that lie on the device, by both protocols: what comes in decides what goes out."""

import ctypes
import gc

import numpy as np
import pytest
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import ArrayError, make, on_device
from dynamics_node.codegen.cuda import DeviceArray, dlpack
from dynamics_node.codegen.cuda import device as opened
from dynamics_node.codegen.cuda.device import LEGACY_STREAM

DOUBLE = np.dtype(np.float64)
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}
COUNTS = [0, 1, 127, 128, 129, 1000]


def made():
    return make(swinging(), "cuda", parameters())


class Told:
    """An array of another library by `__cuda_array_interface__`; changed: what it says otherwise."""

    def __init__(self, array, columns=False, **changed):
        self.owner = DeviceArray.of(np.ascontiguousarray(np.moveaxis(array, 0, -1)) if columns else array)
        told = dict(self.owner.__cuda_array_interface__)
        told["shape"] = array.shape
        told["strides"] = (
            np.moveaxis(np.empty(array.T.shape, array.dtype), -1, 0).strides if columns else None
        )
        self.__cuda_array_interface__ = told | changed


class Lent:
    """By DLPack."""

    def __init__(self, array):
        self.owner = DeviceArray.of(array)

    def __dlpack_device__(self):
        return self.owner.__dlpack_device__()

    def __dlpack__(self, *, stream):
        assert stream == LEGACY_STREAM
        return self.owner.__dlpack__(stream=stream)


def _expected(given):
    a = given[0]
    return (
        on_cpu().run_checked(len(a), given, np.float64)[0]
        if len(a) < 64
        else on_cpu().call_batch(len(a), given, a.dtype)
    )


def _same(found, expected, dtype):
    for result, array in zip(found, expected, strict=True):
        assert isinstance(result, DeviceArray) and result.dtype == dtype and result.shape == array.shape
        np.testing.assert_allclose(result.numpy(), array, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", [DeviceArray.of, Told, Lent])
def test_rows_come_in_and_go_out(fake, kind, count, dtype):
    a, b, g = given = states(count, dtype)
    found, bad = made().on_device([kind(a), kind(b), g], raises=True)
    _same(found, _expected(given), dtype)
    assert bad is None and found[0].strides == (3 * found[0].dtype.itemsize, found[0].dtype.itemsize)


@pytest.mark.parametrize("count", COUNTS)
def test_columns_come_in_and_go_out(fake, count):
    a, b, g = given = states(count)
    (x, y), _ = made().on_device([Told(a, columns=True), Told(b, columns=True), g])
    _same((x, y), _expected(given), np.float64)
    assert x.strides == ((8, 8 * count) if count > 1 else x.strides)


def test_axes_of_the_batch_are_kept(fake):
    a, b, g = states(60)
    shaped = [DeviceArray.of(array.reshape(4, 15, 3)) for array in (a, b)]
    (x, y), _ = made().on_device([*shaped, g])
    assert x.shape == (4, 15, 3) and y.shape == (4, 15)
    (x, y), _ = made().on_device([DeviceArray.of(a[0]), DeviceArray.of(b[0]), g])
    assert x.shape == (3,) and y.shape == ()


def test_results_are_written_where_the_caller_says(fake):
    given = states(300)
    there = [DeviceArray.of(array) for array in given[:2]]
    out = Told(np.zeros((300, 3))), DeviceArray.of(np.zeros(300))
    found, _ = made().on_device([*there, given[2]], out)
    assert found == out
    x, y = out[0].owner.numpy(), out[1].numpy()
    np.testing.assert_allclose(x, _expected(given)[0], rtol=1e-13)
    np.testing.assert_allclose(y, _expected(given)[1], rtol=1e-13, atol=1e-13)


def test_the_first_state_without_a_result_is_told(fake):
    a, b, g = states(2000)
    a[[1500, 700]] = np.nan
    b[900, 1] = 2.5  # health
    there = [DeviceArray.of(a), DeviceArray.of(b)]
    (x, _), bad = made().on_device([*there, g], raises=True)
    assert bad == 700
    assert np.flatnonzero(np.isnan(x.numpy()).all(axis=1)).tolist() == [700, 900, 1500]
    turned = [Told(a, columns=True), Told(b, columns=True)]
    assert made().on_device([*turned, g], raises=True)[1] == 700


def test_far_angles_have_no_result_on_the_device(fake):
    a, b, g = states(100)
    a[3, 0] = 1e12
    (x, _), bad = made().on_device([DeviceArray.of(a), DeviceArray.of(b), g], raises=True)
    assert bad == 3 and np.isnan(x.numpy()[3]).all()


def test_long_batches_are_launched_in_parts(fake, monkeypatch):
    monkeypatch.setattr("dynamics_node.codegen.printer.Kernel.most_states", 256)
    given = states(1000)
    found, _ = made().on_device([*(DeviceArray.of(array) for array in given[:2]), given[2]])
    _same(found, _expected(given), np.float64)
    assert [count for _, count, _ in fake.launches] == [256, 256, 256, 232]
    with pytest.raises(ArrayError, match="1000 states.* 256"):
        made().on_device([*(Told(array, columns=True) for array in given[:2]), given[2]])


# --- streams ------------------------------------------------------------------------------------------------


def test_work_is_given_to_the_stream_that_makes_the_arrays(fake):
    there, given, runner = opened.device(), states(300), made()
    with there.at_work():
        stream = there.stream()
    arrays = [Told(array, stream=stream) for array in given[:2]]
    runner.on_device([*arrays, given[2]])  # compiled and loaded
    before = len(fake.launches)
    (x, y), _ = runner.on_device([*arrays, given[2]])
    assert x.__cuda_array_interface__["stream"] == stream
    assert len(fake.launches) == before  # nobody has waited so far
    _same((x, y), _expected(given), np.float64)
    assert len(fake.launches) == before + 1
    with there.at_work():
        there.free("stream", stream)


def test_several_streams_wait_for_each_other(fake):
    """The fake does what a stream is given only when somebody waits: an array of zeros becomes b on its own
    stream, and is copied to elsewhere on that stream behind the call."""
    there, given, runner = opened.device(), states(300), made()
    with there.at_work():
        streams = there.stream(), there.stream()
    a, late, out = Told(given[0], stream=streams[0]), Told(given[1] * 0), Told(np.zeros((300, 3)))
    late.__cuda_array_interface__["stream"] = streams[1]
    out.__cuda_array_interface__["stream"] = streams[1]
    with there.at_work():
        there.put(late.owner.address, given[1].ctypes.data, given[1].nbytes, streams[1])
    results = DeviceArray.of(np.zeros(300))
    results.stream = streams[1]
    runner.on_device([a, late, given[2]], (out, results))
    found = np.empty((300, 3))
    with there.at_work():
        there.get(found.ctypes.data, out.owner.address, found.nbytes, streams[1])
        there.wait(streams[1])
        for stream in streams:
            there.free("stream", stream)
    np.testing.assert_allclose(found, _expected(given)[0], rtol=1e-13)
    results.stream = None


def test_where_no_stream_is_told_results_are_there_at_the_return(fake):
    given = states(300)
    (x, _), _ = made().on_device([Told(given[0], stream=None), Lent(given[1]), given[2]])
    assert x.stream is None and len(fake.launches) == 1
    older = Told(given[0])
    older.__cuda_array_interface__ = {**older.__cuda_array_interface__, "version": 2}
    del older.__cuda_array_interface__["stream"]
    (x, _), _ = made().on_device([older, DeviceArray.of(given[1]), given[2]])
    assert x.stream is None and len(fake.launches) == 2


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda a, b, g: [DeviceArray.of(a), b, g],
            r"b \(100, 3\) does not lie on the device: copy it there",
        ),
        (
            lambda a, b, g: [DeviceArray.of(a[:50]), DeviceArray.of(b), g],
            r"b must have shape \(50, 3\), not \(100, 3\)",
        ),
        (
            lambda a, b, g: [DeviceArray.of(a[:, :2].copy()), DeviceArray.of(b), g],
            r"a must have shape \(100, 3\), not \(100, 2\)",
        ),
        (
            lambda a, b, g: [DeviceArray.of(a), DeviceArray.of(b.astype("f4")), g],
            "b is of float32, a of float64: one type",
        ),
        (
            lambda a, b, g: [DeviceArray.of(a), Told(b, typestr="<i8"), g],
            "b must be of float32 or float64, not of int64",
        ),
        (
            lambda a, b, g: [DeviceArray.of(a), Told(b, columns=True), g],
            "a rows, b columns; copy those that do not",
        ),
        (lambda a, b, g: [DeviceArray.of(a), Told(b, strides=(48, 8)), g], "a rows, b neither; copy those"),
        (
            lambda a, b, g: [DeviceArray.of(a), Told(b, stream=0), g],
            "b tells stream 0, which may mean several",
        ),
        (lambda a, b, g: [DeviceArray.of(a), Told(b, mask=a), g], "b has a mask"),
        (
            lambda a, b, g: [DeviceArray.of(a), Told(b, data=(4096, False)), g],
            "b does not lie on fake device 0",
        ),
        (lambda a, b, g: [DeviceArray.of(a), DeviceArray.of(b), g * np.inf], "gravity is not finite"),
        (
            lambda a, b, g: [DeviceArray.of(a), DeviceArray.of(b), g[:2]],
            r"gravity \(2,\) does not lie on the device",
        ),
    ],
)
def test_what_cannot_be_used_is_told_by_name(fake, spoil, words):
    with pytest.raises(ArrayError, match=words):
        made().on_device(spoil(*states(100)))
    assert fake.launches == [] and opened.lost() is None


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda: Told(np.zeros((99, 3))), r"out must have shape \(100, 3\), not \(99, 3\)"),
        (lambda: Told(np.zeros((100, 3), np.float32)), "out is of float32, a of float64"),
        (
            lambda: Told(np.zeros((100, 3)), data=(DeviceArray.of(np.zeros(3)).address, True)),
            "out is read-only",
        ),
        (lambda: Told(np.zeros((100, 3)), columns=True), "a rows, b rows, out columns"),
    ],
)
def test_a_place_that_does_not_fit_is_told(fake, place, words):
    a, b, g = states(100)
    with pytest.raises(ArrayError, match=words):
        made().on_device([DeviceArray.of(a), DeviceArray.of(b), g], (place(), DeviceArray.of(np.zeros(100))))


def test_a_producer_that_refuses_is_told(fake):
    class Refusing(Lent):
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("detach it")

        def __dlpack__(self, *, stream):
            raise BufferError("it needs a gradient")

    a, b, g = states(100)
    with pytest.raises(ArrayError, match="b .*gradient"):
        made().on_device([DeviceArray.of(a), Refusing(b), g])


def test_what_is_an_array_on_the_device(fake):
    assert on_device(DeviceArray.of(np.ones(3))) and on_device(Lent(np.ones(3)))
    assert not any(map(on_device, (np.ones(3), [1.0], None, 3.0, "a")))


# --- arrays of ours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.float32([1, 2]), np.array(3.0)]
)
def test_an_array_goes_there_and_back(fake, array):
    there = DeviceArray.of(array)
    assert (there.shape, there.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(there.numpy(), array)
    with pytest.raises(ArrayError, match="int64"):
        DeviceArray.of(np.arange(3))


def test_memory_lives_as_long_as_somebody_reads_it(fake):
    array = DeviceArray.of(np.arange(3.0))
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert fake.held["memory"] == 1
    del capsule
    assert "memory" not in fake.held


def test_a_capsule_can_be_taken_once(fake):
    """As a consumer does: it renames the capsule, and calls the deleter in the end."""
    array = DeviceArray.of(np.arange(6.0).reshape(2, 3))
    capsule = array.__dlpack__(stream=-1, max_version=(1, 0))
    tensor = dlpack.read(capsule)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 3), (24, 8), DOUBLE)
    managed = dlpack._Managed.from_address(dlpack._pointer(id(capsule), b"dltensor"))
    set_name = ctypes.pythonapi.PyCapsule_SetName
    used = b"used_dltensor"
    set_name(ctypes.py_object(capsule), ctypes.c_char_p(used))
    with pytest.raises(ValueError, match="capsule"):
        dlpack.read(capsule)
    del capsule, array
    gc.collect()
    assert fake.held["memory"] == 1
    managed.deleter(ctypes.pointer(managed))
    assert "memory" not in fake.held


def test_what_dlpack_cannot_have_is_refused(fake):
    array = DeviceArray.of(np.arange(3.0))
    for asked in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="numpy"):
            array.__dlpack__(**asked)
