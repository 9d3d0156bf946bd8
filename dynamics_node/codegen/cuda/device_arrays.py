"""Arrays on the device, by __cuda_array_interface__ or DLPack: CuPy's, PyTorch's, JAX', Numba's, and our own.

https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html (version 3)
"""

from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from dynamics_node.codegen.cuda import dlpack
from dynamics_node.codegen.cuda.device import LEGACY_STREAM, Device, device

ROWS, COLUMNS = "rows", "columns"


class ArrayError(ValueError):
    """An array on the device that cannot be used as it is; says what to do."""


def on_device(value) -> bool:
    """Whether a value is an array that lies on a CUDA device."""
    if isinstance(value, np.ndarray):
        return False
    return _interface(value) is not None or _exchanged(value)


def _interface(value) -> dict | None:
    """None of arrays of such libraries that lie elsewhere: they raise AttributeError."""
    try:
        return getattr(value, "__cuda_array_interface__", None)
    except RuntimeError:  # PyTorch's tensors with a gradient; DLPack says why
        return None


def _exchanged(value):
    about = getattr(value, "__dlpack_device__", None)
    return about is not None and about()[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED)


class View(NamedTuple):
    """Memory on the device.

    strides: in bytes; stream: whose work makes the array and may read it next, None where no stream is told:
    then it is there already, and a result in it has to be there when a call returns; holds: what keeps it
    alive.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    stream: int | None
    holds: Any

    def layouts(self, axes: int) -> set[str]:
        """In which layouts an array (..., *shape) lies, its last `axes` belonging to one state: rows are
        C-contiguous; in columns every entry lies with all its states side by side, as in Fortran's order."""
        batch = len(self.shape) - axes
        shape, strides, itemsize = self.shape, self.strides, self.dtype.itemsize
        found = {ROWS} if _contiguous(shape, strides, itemsize) else set()
        if _contiguous(shape[batch:] + shape[:batch], strides[batch:] + strides[:batch], itemsize):
            found.add(COLUMNS)
        return found


def contiguous_strides(shape, itemsize):
    """In bytes, of a C-contiguous array."""
    strides, step = [], itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _contiguous(shape, strides, itemsize):
    own = contiguous_strides(shape, itemsize)
    return 0 in shape or all(a == b for n, a, b in zip(shape, strides, own, strict=True) if n > 1)


def view(name: str, value, written=False) -> View:
    """An array on the device, ready to be read by what is given to its stream, or to the default stream where
    it tells none; written: as a place for results. Raises ArrayError."""
    interface = _interface(value)
    # one without a stream, as PyTorch's, says less than DLPack
    if interface is None or ("stream" not in interface and _exchanged(value)):
        found = _taken(name, value)
    else:
        found = _told(name, interface, value)
        if written and interface["data"][1]:
            raise ArrayError(f"{name} is read-only")
    if 0 not in found.shape and not device().owns(found.address):
        raise ArrayError(f"{name} does not lie on {device().name}, the device that is used")
    return found


def _told(name, interface, value):
    if interface.get("mask") is not None:
        raise ArrayError(f"{name} has a mask")
    shape, dtype = tuple(interface["shape"]), _plain(name, np.dtype(interface["typestr"]))
    stream = interface.get("stream")
    if stream == 0:
        raise ArrayError(f"{name} tells stream 0, which may mean several: it must be 1 or 2")
    strides = interface.get("strides") or contiguous_strides(shape, dtype.itemsize)
    return View(name, interface["data"][0], shape, tuple(strides), dtype, stream, value)


def _taken(name, value):
    """The producer makes the default stream wait until the array is there."""
    try:
        tensor = dlpack.read(value.__dlpack__(stream=LEGACY_STREAM))
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArrayError(f"{name} does not give its memory: {error}") from None
    dtype = _plain(name, tensor.dtype)
    strides = tensor.strides or contiguous_strides(tensor.shape, dtype.itemsize)
    return View(name, tensor.address, tensor.shape, strides, dtype, None, tensor.holds)


def _plain(name, dtype):
    if dtype not in (np.float32, np.float64):
        raise ArrayError(f"{name} must be of float32 or float64, not of {dtype or 'other numbers'}")
    return dtype


class DeviceArray:
    """An array of ours on the device, which lives as long as this object or who reads it by
    `__cuda_array_interface__` or DLPack (`cupy.asarray`, `torch.from_dlpack`, ...).

    shape; dtype: float32 or float64; strides: in bytes; stream: that whose work writes it, None when it is
    there.
    """

    def __init__(self, shape, dtype, layout=ROWS, axes=1, stream: int | None = None):
        """Room for results (..., *shape), see `View.layouts`. Inside `at_work`. Raises CudaError."""
        self.shape, self.dtype, self.stream = tuple(shape), np.dtype(dtype), stream
        batch = len(self.shape) - axes
        lies = self.shape if layout == ROWS else self.shape[batch:] + self.shape[:batch]
        strides = contiguous_strides(lies, self.dtype.itemsize)
        self.strides = strides if layout == ROWS else strides[axes:] + strides[:axes]
        self.nbytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=int))
        self._turned = 0 if layout == ROWS else axes
        self._device: Device = device()
        self.address = self._device.memory(self.nbytes, "array")
        finalize(self, self._device.free, "array", self.address)

    @classmethod
    def of(cls, array: np.ndarray) -> "DeviceArray":
        """A copy of an array of NumPy, C-contiguous there. Raises CudaError."""
        values = np.asarray(array, order="C")
        if values.dtype not in (np.float32, np.float64):
            raise ArrayError(f"an array on the device is of float32 or float64, not {values.dtype}")
        with device().at_work():
            made = cls(values.shape, values.dtype)
            made._device.put(made.address, values.ctypes.data, values.nbytes, LEGACY_STREAM)
            made._device.wait(LEGACY_STREAM)
        return made

    def numpy(self) -> np.ndarray:
        """A copy of NumPy's, of the same order in memory. Raises CudaError."""
        batch = len(self.shape) - self._turned
        turned = self.shape[batch:] + self.shape[:batch]
        values = np.empty(turned, self.dtype)
        with self._device.at_work():
            stream = self.stream or LEGACY_STREAM
            self._device.get(values.ctypes.data, self.address, values.nbytes, stream)
            self._device.wait(stream)
        axes = range(self._turned)
        return np.moveaxis(values, axes, [batch + k for k in axes])

    def __repr__(self):
        return f"DeviceArray({self.shape}, {self.dtype}, on {self._device.name})"

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "stream": self.stream,
            "version": 3,
        }

    def __dlpack_device__(self):
        return dlpack.CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """stream: of who reads; None: the default stream, -1: one that need not wait."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray is lent where it lies: use numpy() for a copy")
        reader = LEGACY_STREAM if stream is None else stream
        if self.stream not in (None, reader) and reader != -1:
            with self._device.at_work():
                self._device.follow(reader, self.stream)
        return dlpack.write(self.address, self.shape, self.strides, self.dtype, 0, self)
