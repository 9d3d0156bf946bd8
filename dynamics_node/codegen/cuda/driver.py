"""libcuda.so.1, the driver of NVIDIA's GPUs, by ctypes. Every call that fails is a CudaError."""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache

from dynamics_node.codegen.errors import CudaError, failed

LIBRARY = "libcuda.so.1"
OLDEST = 12000  # 1000 times the CUDA version
DevicePointer = c_uint64

_INT, _PLACE, _POINTER = POINTER(c_int), POINTER(DevicePointer), POINTER(c_void_p)
SIGNATURES = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_INT,),
    "cuDeviceGetCount": (_INT,),
    "cuDeviceGet": (_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_POINTER, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_POINTER,),
    "cuMemAlloc_v2": (_PLACE, c_size_t),
    "cuMemFree_v2": (DevicePointer,),
    "cuMemHostAlloc": (_POINTER, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (DevicePointer, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, DevicePointer, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, DevicePointer),
    "cuStreamCreate": (_POINTER, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (_POINTER, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuModuleLoadData": (_POINTER, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_POINTER, c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, _POINTER, _POINTER),
}
_TOLD = ("cuGetErrorName", "cuGetErrorString")


class Driver:
    """driver("cuMemFree_v2", place): a call. version: of CUDA, (13, 0)."""

    def __init__(self, path: str = LIBRARY):
        """Raises CudaError: no driver, an old one, no device."""
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            told = f"no NVIDIA driver: {error}; install one (Ubuntu: sudo ubuntu-drivers install)"
            raise CudaError(told) from None
        try:
            self._declare()
        except AttributeError as error:
            raise CudaError(f"this NVIDIA driver is too old ({error}): one of CUDA 12 is needed") from None
        self("cuInit", 0)
        number = self.asked("cuDriverGetVersion", c_int).value
        if number < OLDEST:
            told = f"this NVIDIA driver is of CUDA {number // 1000}.{number % 1000 // 10}"
            raise CudaError(f"{told}: one of CUDA {OLDEST // 1000} or newer is needed")
        self.version = number // 1000, number % 1000 // 10

    def _declare(self):
        for name, types in SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = types, c_int
        for name in _TOLD:
            function = getattr(self._library, name)
            function.argtypes, function.restype = (c_int, POINTER(c_char_p)), c_int

    def __call__(self, name: str, *arguments):
        if number := getattr(self._library, name)(*arguments):
            raise failed(name, number, *(self._told(about, number) for about in _TOLD))

    def asked(self, name: str, kind, *arguments):
        """A call that writes its first argument: that, of a ctypes kind."""
        found = kind()
        self(name, ctypes.byref(found), *arguments)
        return found

    def _told(self, about, number):
        text = c_char_p()
        getattr(self._library, about)(number, ctypes.byref(text))
        return (text.value or b"").decode(errors="replace")


def driver_is_there() -> bool:
    """Whether this machine has a driver; whether it has a device nobody has asked yet."""
    return _loads(LIBRARY)


@cache
def _loads(path):
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
