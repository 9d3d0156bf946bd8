"""The CUDA device of this process: context, memory, streams and modules; opened once, and lost after a
fault.

An error of the driver other than a lack of memory ends the use of the device: it is lost, for such errors
leave a context that answers nothing. Kernels with loops share scratch memory (`scratch`) as they run one
after the other.
"""

import ctypes
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

from dynamics_node.codegen.cuda import driver as drivers
from dynamics_node.codegen.cuda.driver import DevicePointer, Driver
from dynamics_node.codegen.errors import INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY, CudaError, failed

log = logging.getLogger("dynamics_node")

LEGACY_STREAM = 1  # the handle of the default stream, which waits for all others and they for it
_CAPABILITY, _PROCESSORS, _ORDINAL = (75, 76), 16, 9  # numbers of attributes in cuda.h
_NON_BLOCKING, _NO_TIMING = 1, 2  # flags of streams and of events
FORKED = ("fork", NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "the device is its parent's")
_FREE = {
    "array": "cuMemFree_v2",
    "memory": "cuMemFree_v2",
    "pinned": "cuMemFreeHost",
    "stream": "cuStreamDestroy_v2",
    "event": "cuEventDestroy_v2",
    "module": "cuModuleUnload",
}
_lock = threading.RLock()
_said: set[str] = set()
RESIDENT = 4  # blocks of a multiprocessor: registers of kernels with loops allow about so many
MOST_BYTES = 2**30
STREAMS = 4  # that have memory at a time
_scratch_lock = threading.Lock()


class Device:
    """name; capability: 90 for 9.0; processors: how many multiprocessors; lost: the error that ended its use.

    Every method that runs something there is called inside `with device.at_work():`, by any number of
    threads.
    """

    def __init__(self, driver: Driver):
        """Raises CudaError."""
        self._driver, self._process = driver, os.getpid()
        if not driver.asked("cuDeviceGetCount", ctypes.c_int).value:
            raise CudaError("the NVIDIA driver shows no device: look at CUDA_VISIBLE_DEVICES")
        self._device = driver.asked("cuDeviceGet", ctypes.c_int, 0).value
        name = ctypes.create_string_buffer(256)
        driver("cuDeviceGetName", name, len(name), self._device)
        self.name = name.value.decode(errors="replace")
        major, minor = (self._attribute(number) for number in _CAPABILITY)
        self.capability, self.processors = 10 * major + minor, self._attribute(_PROCESSORS)
        self.driver_version = driver.version
        self.lost: CudaError | None = None
        self._context: ctypes.c_void_p | None = None
        self._lock = threading.RLock()  # a collected array may free its memory wherever this thread is
        self._workers, self._closed = 0, False
        self._held: dict[tuple[str, int], None] = {}
        self._functions: dict[tuple[bytes, str], ctypes.c_void_p] = {}

    def _attribute(self, number):
        return self._driver.asked("cuDeviceGetAttribute", ctypes.c_int, number, self._device).value

    # --- who works with it ----------------------------------------------------------------------------------

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The context is current in this thread. An error of the driver that leaves the block, but for a lack
        of memory, is the end of the device. Raises CudaError at once after that, and in a forked process."""
        self.require_usable()
        with self._lock:
            self._workers += 1
        try:
            with self._current():
                yield
        except CudaError as error:
            if error.number not in (0, OUT_OF_MEMORY):
                self._lose(error)
            raise
        finally:
            with self._lock:
                self._workers -= 1
                if self.lost and not self._workers:
                    self.close()

    @property
    def is_ours(self) -> bool:
        """Not of the process from which this one was forked."""
        return self._process == os.getpid()

    def require_usable(self):
        """Raises CudaError."""
        if not self.is_ours:
            raise failed(*FORKED)
        if self.lost is not None:
            raise CudaError(f"the device is lost since {self.lost}")

    @contextmanager
    def _current(self):
        """Others may have their own context in this thread: it is theirs again afterwards."""
        self._driver("cuCtxPushCurrent_v2", self._retained())
        try:
            yield
        finally:
            self._pop()

    def _pop(self):
        _surely(self._driver.asked, "cuCtxPopCurrent_v2", ctypes.c_void_p)

    def _retained(self):
        with self._lock:
            if self._context is None:
                self._context = self._driver.asked("cuDevicePrimaryCtxRetain", ctypes.c_void_p, self._device)
            return self._context

    def _lose(self, error):
        with self._lock:
            if self.lost is None:
                self.lost = CudaError(*error.args)  # the other one's traceback keeps arrays alive
                log.error("the GPU %s is lost, and the CPU goes on: %s", self.name, str(error))

    def close(self):
        """Give back all that is held, but for arrays, which others may still read: the context goes with the
        last of them. Nothing may be at work."""
        self._closed = True
        with self._lock:
            for kind, handle in list(self._held):
                if kind != "array":
                    self.free(kind, handle)
            self._functions.clear()
            self._release()

    def _release(self):
        """The context, when nothing is held any more."""
        if self._context is not None and not self._held:
            _surely(self._driver, "cuDevicePrimaryCtxRelease_v2", self._device)
            self._context = None

    # --- what is held ---------------------------------------------------------------------------------------

    def memory(self, size: int, kind="memory") -> int:
        """Address of so many bytes on the device; kind: 'array' for what is given to others."""
        return self._hold(kind, self._driver.asked("cuMemAlloc_v2", DevicePointer, max(1, size)))

    def pinned(self, size: int) -> int:
        """Address of so many bytes of this machine that stay where they are: copies of them overlap."""
        return self._hold("pinned", self._driver.asked("cuMemHostAlloc", ctypes.c_void_p, max(1, size), 0))

    def stream(self) -> int:
        """Whose work is done in order, beside that of others."""
        return self._hold("stream", self._driver.asked("cuStreamCreate", ctypes.c_void_p, _NON_BLOCKING))

    def event(self) -> int:
        """A place in the work of a stream, that others can wait for."""
        return self._hold("event", self._driver.asked("cuEventCreate", ctypes.c_void_p, _NO_TIMING))

    def _hold(self, kind, handle):
        with self._lock:
            self._held[kind, handle.value] = None
        return handle.value

    def free(self, kind: str, handle: int):
        """Give back what `memory`, `pinned`, `stream` or `event` gave, once; errors are nobody's any more."""
        if not self.is_ours:
            return
        with self._lock:
            if (kind, handle) not in self._held:
                return
            del self._held[kind, handle]
            _surely(self._free, kind, handle)
            if self._closed:
                self._release()

    def _free(self, kind, handle):
        pushed = False
        try:
            with suppress(CudaError):
                self._driver("cuCtxPushCurrent_v2", self._context)
                pushed = True
            self._driver(_FREE[kind], handle)
        finally:
            if pushed:
                self._pop()

    def owns(self, address: int) -> bool:
        """Whether memory at an address is of this device."""
        try:
            ordinal = self._driver.asked("cuPointerGetAttribute", ctypes.c_int, _ORDINAL, address)
        except CudaError as error:
            if error.number == INVALID_VALUE:  # of no device
                return False
            raise
        return ordinal.value == self._device

    # --- what runs there ------------------------------------------------------------------------------------

    def function(self, image: bytes, name: str) -> ctypes.c_void_p:
        """A kernel of a cubin or a PTX text, loaded once."""
        with self._lock:
            if (image, name) not in self._functions:
                module = self._hold("module", self._driver.asked("cuModuleLoadData", ctypes.c_void_p, image))
                found = self._driver.asked("cuModuleGetFunction", ctypes.c_void_p, module, name.encode())
                self._functions[image, name] = found
            return self._functions[image, name]

    def launch(self, function, blocks: int, threads: int, arguments: Sequence, stream: int):
        """arguments: ctypes values, copied by the driver before this returns."""
        places = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._driver("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, places, None)

    def put(self, place: int, address: int, size: int, stream: int):
        """Copy to the device what lies at an address of this machine."""
        self._driver("cuMemcpyHtoDAsync_v2", place, address, size, stream)

    def get(self, address: int, place: int, size: int, stream: int):
        """Copy from the device to an address of this machine."""
        self._driver("cuMemcpyDtoHAsync_v2", address, place, size, stream)

    def wait(self, stream: int):
        """Until all its work is done; that is where errors of kernels are told."""
        self._driver("cuStreamSynchronize", stream)

    def follow(self, stream: int, other: int):
        """What is given to `stream` from now on waits for what was given to `other` so far."""
        event = self.event()
        try:
            self._driver("cuEventRecord", event, other)
            self._driver("cuStreamWaitEvent", stream, event, 0)
        finally:
            self.free("event", event)  # the driver keeps it until it is passed


def _surely(call, *arguments):
    """What gives something back: its first error may be that of work done before."""
    for _ in range(2):
        with suppress(CudaError):
            call(*arguments)
            return


_opened: list[Device | CudaError] = []


def _in_child():
    """Another thread may have had the lock at the fork."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


def device() -> Device:
    """The device of this process. Raises CudaError: there is none, or it is lost."""
    with _lock:
        if not _opened:
            try:
                _opened.append(Device(Driver(drivers.LIBRARY)))
            except CudaError as error:
                _opened.append(error)
        found = _opened[0]
    if isinstance(found, CudaError):
        raise CudaError(*found.args)
    found.require_usable()
    return found


def lost() -> CudaError | None:
    """What ended the use of the device that this process, or the one it was forked from, has opened."""
    found = _opened[0] if _opened else None
    if not isinstance(found, Device):
        return None
    return found.lost if found.is_ours else failed(*FORKED)


def say_once(told: str):
    """A warning, in a process once."""
    if told not in _said:
        _said.add(told)
        log.warning("%s", told)


def forget():
    """Give back all that is held on the device; the next call of `device` opens it anew."""
    with _lock:
        if _opened and isinstance(_opened[0], Device):
            _opened[0].close()
        _opened.clear()
        _said.clear()


_kept: WeakKeyDictionary[Device, dict[int, tuple[int, int]]] = WeakKeyDictionary()


@contextmanager
def scratch(device: Device, each: int, blocks: int, stream: int) -> Iterator[tuple[int, int]]:
    """(address, number of blocks): memory of `each` bytes a block for at most so many, for a kernel that is
    given to the stream inside. Raises CudaError."""
    most = max(1, min(blocks, RESIDENT * device.processors, MOST_BYTES // each))
    with _scratch_lock:
        kept = _kept.setdefault(device, {})
        address, size = kept.pop(stream, (0, 0))
        if size < most * each:
            if size:
                device.free("memory", address)
            while len(kept) >= STREAMS:
                device.free("memory", kept.pop(next(iter(kept)))[0])
            address, size = _allocated(device, each, most)
        kept[stream] = address, size
        yield address, min(most, size // each)


def _allocated(device, each, blocks):
    """(address, bytes) for so many blocks, or fewer where memory is short."""
    while True:
        try:
            return device.memory(blocks * each), blocks * each
        except CudaError as error:
            if error.number != OUT_OF_MEMORY or blocks == 1:
                raise
        blocks //= 2
