"""A module that stands in for CuPy where there is no device. Its arrays behave as CuPy's do where that differs from
NumPy's: they never meet NumPy's in an operation. Kernels run as C. It has only what is named here."""

from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin
from text_in_c import as_c, compiled

NAMES = set(
    [
        "ascontiguousarray",
        "concatenate",
        "cos",
        "empty",
        "eye",
        "isnan",
        "roll",
        "sin",
        "sqrt",
        "stack",
        "swapaxes",
        "where",
        "zeros",
        "zeros_like",
    ]
)


def real_cupy():
    """CuPy itself. Skips the test where it has no device."""
    cupy = pytest.importorskip("cupy", reason="no CUDA device: CuPy is not installed")
    if not cupy.cuda.is_available():
        pytest.skip("no CUDA device")
    return cupy


class CudaError(RuntimeError):
    """As CUDARuntimeError and CUDADriverError; status: number of the error."""

    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class CompileException(Exception):
    pass


class DeviceArray(NDArrayOperatorsMixin):
    """NumPy may index it, as CuPy allows; every other use of both together is a TypeError."""

    def __init__(self, host):
        self.host = host

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.host, name)
        if callable(value):
            return lambda *arguments, **options: _called(value, arguments, options)
        return _device(value) if isinstance(value, np.ndarray) else value

    @property
    def device(self):
        return _Device()

    def get(self, stream=None, out=None, blocking=True):
        """The array on the host."""
        FAULT.meet()
        if out is None:
            return self.host.copy()
        assert stream is not None and out.flags.c_contiguous and out.dtype == self.dtype
        out[...] = self.host
        return out

    def set(self, array, stream):
        FAULT.meet()
        assert type(array) is np.ndarray and array.shape == self.shape and array.dtype == self.dtype
        self.host[...] = array

    def __dlpack_device__(self):
        return 2, 0

    def __array__(self, *_, **__):
        raise TypeError("an array of the device where one of NumPy is needed")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        _refuse_host(inputs)
        into = {} if out is None else {"out": tuple(_plain(x) for x in out)}
        result = getattr(ufunc, method)(*map(_plain, inputs), **into, **options)
        return out[0] if out else _device(result)

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} on an array of the device")

    def __getitem__(self, at):
        return _device(self.host[_at(at)])

    def __setitem__(self, at, value):
        _refuse_host([value])
        self.host[_at(at)] = _plain(value)

    def __len__(self):
        return len(self.host)

    def __bool__(self):
        return bool(self.host)

    def __int__(self):
        return int(self.host)


class _Linalg:
    @staticmethod
    def solve(A, b):
        _refuse_host([A, b])
        return _device(np.linalg.solve(_plain(A), _plain(b)))


class Fault:
    """The call of CUDA, of those that are counted, that fails: number `at`, None for none; `status`: its error."""

    def __init__(self):
        self.calls, self.at, self.status = 0, None, 719

    def plan(self, at, status=719):
        self.calls, self.at, self.status = 0, at, status

    def meet(self):
        self.calls += 1
        if self.at is not None and self.calls > self.at:
            self.at = None
            raise CudaError(self.status)


FAULT = Fault()


class _Device:
    id, attributes = 0, {"MultiProcessorCount": 1}

    def __eq__(self, other):
        return other.id == self.id

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class _Stream:
    current = null = None

    def __init__(self, non_blocking=False, ptr=0):
        FAULT.meet()
        self.ptr = ptr

    @classmethod
    def from_external(cls, stream):
        version, ptr = stream.__cuda_stream__()
        assert version == 0
        return cls(ptr=ptr)

    def __enter__(self):
        self._before, _Stream.current = _Stream.current, self

    def __exit__(self, *_):
        _Stream.current = self._before

    def synchronize(self):
        FAULT.meet()


_Stream.current = _Stream.null = _Stream()


class _Event:
    def record(self):
        FAULT.meet()

    synchronize = record


class Kernel:
    """A RawKernel: the text as C."""

    def __init__(self, text, name, options):
        assert "-fmad=false" in options
        self._text, self._name = text, name

    def compile(self):
        FAULT.meet()
        if "#error" in self._text:
            raise CompileException("kern.cu(1): error: wicked")

    def __call__(self, blocks, threads, arguments):
        FAULT.meet()
        assert all(type(a) in (DeviceArray, np.int32, np.float32, np.float64) for a in arguments)
        arrays = [a for a in arguments if isinstance(a, DeviceArray)]
        assert all(a.flags.c_contiguous or a.transpose().flags.c_contiguous for a in arrays)
        LAUNCHES.append((self._name, int(arguments[0]), *blocks, *threads))
        given = [as_c(_plain(a)) for a in arguments]
        compiled(self._text, self._name, "-O0")(*given)


LAUNCHES: list[tuple] = []  # (kernel, its first argument, blocks, threads of each)


def _pinned(size):
    FAULT.meet()
    return bytearray(size)


class DeviceModule:
    """To be used as `xp`, or as the module cupy."""

    __spec__ = ModuleSpec("cupy", None)
    linalg, ndarray, RawKernel = _Linalg, DeviceArray, Kernel
    cuda = SimpleNamespace(
        is_available=lambda: True,
        Device=_Device,
        Stream=_Stream,
        Event=_Event,
        get_elapsed_time=lambda start, end: 1.0,
        get_current_stream=lambda: _Stream.current,
        alloc_pinned_memory=_pinned,
        runtime=SimpleNamespace(
            CUDARuntimeError=CudaError,
            getDevice=lambda: 0,
            getDeviceProperties=lambda number: {"name": b"none"},
            driverGetVersion=lambda: 0,
        ),
        driver=SimpleNamespace(CUDADriverError=CudaError),
        compiler=SimpleNamespace(CompileException=CompileException),
    )

    def __getattr__(self, name):
        if name not in NAMES:
            raise AttributeError(name)
        return lambda *arguments, **options: _called(getattr(np, name), arguments, options)

    @staticmethod
    def asarray(array, dtype=None):
        FAULT.meet()
        if isinstance(array, DeviceArray) and dtype in (None, array.dtype):
            return array
        return DeviceArray(np.array(_plain(array), dtype=dtype))

    @staticmethod
    def from_dlpack(array):
        return DeviceArray(array.__dlpack__())


class Tensor:
    """An array on the device of a library that is none of these: it speaks DLPack."""

    def __init__(self, array):
        self.array = np.array(array)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        return self.array

    def __array_namespace__(self):
        return SimpleNamespace(from_dlpack=lambda array: Tensor(array.get()))


def _called(function, arguments, options):
    flat = [x for a in arguments for x in (a if isinstance(a, (list, tuple)) else [a])]
    _refuse_host(flat)
    given = [[_plain(x) for x in a] if isinstance(a, (list, tuple)) else _plain(a) for a in arguments]
    return _device(function(*given, **options))


def _refuse_host(arrays):
    if any(type(a) is np.ndarray and a.ndim for a in arrays):
        raise TypeError("an array of NumPy where one of the device is needed")


def _at(index):
    return tuple(map(_plain, index)) if isinstance(index, tuple) else _plain(index)


def _plain(x):
    return x.host if isinstance(x, DeviceArray) else x


def _device(x):
    return DeviceArray(np.asarray(x))
