"""Medians of kernels by the device's own clock."""

import ctypes
import statistics

from kernels import OnDevice

from dynamics_node.codegen.errors import OUT_OF_MEMORY, CudaError

CACHE = 4 * 64 << 20  # bytes in turn between two uses of an array: four times the largest L2
COUNTS = (1_000_000, 100_000, 10_000, 1000, 4_000_000)  # what is asked for first, first
_MOST_COPIES, _ROUNDS, _MOST_LAUNCHES, _LEAST_MS = 512, 9, 2000, 2.0


class Clock:
    """Two events of a stream."""

    def __init__(self, driver):
        self.driver = driver
        self.begin, self.end = (driver.asked("cuEventCreate", ctypes.c_void_p, 0) for _ in range(2))

    def milliseconds(self, stream, work):
        """Of what `work` gives to a stream."""
        stream = ctypes.c_void_p(stream)
        self.driver("cuEventRecord", self.begin, stream)
        work()
        self.driver("cuEventRecord", self.end, stream)
        self.driver("cuStreamSynchronize", stream)
        found = ctypes.c_float()
        try:
            self.driver("cuEventElapsedTime_v2", ctypes.byref(found), self.begin, self.end)
        except AttributeError:  # a driver older than CUDA 12.8
            self.driver("cuEventElapsedTime", ctypes.byref(found), self.begin, self.end)
        return found.value

    def close(self):
        for event in self.begin, self.end:
            self.driver("cuEventDestroy_v2", event)


def median(clock, running):
    """Milliseconds of one launch: the median of rounds, each of so many launches that it takes some
    milliseconds."""

    def several(launches):
        return (
            clock.milliseconds(running.stream, lambda: [running.launch() for _ in range(launches)]) / launches
        )

    warm = min(several(1) for _ in range(3))
    launches = max(1, min(_MOST_LAUNCHES, round(_LEAST_MS / max(warm, 1e-3))))
    return statistics.median(several(launches) for _ in range(_ROUNDS))


def timed(kernel, device, clock, image, count):
    """A row: milliseconds a launch and states a second; or why not."""
    row = {"kernel": kernel.name, "digest": kernel.entry["digest"], "count": count}
    size = kernel.bytes * count
    copies = max(1, min(_MOST_COPIES, CACHE // size))
    running = None
    try:
        running = OnDevice(kernel, device, image, count, copies)
        ms = median(clock, running)
    except CudaError as error:
        if error.number != OUT_OF_MEMORY:
            raise
        return {**row, "reason": f"{size * copies >> 20} MB do not fit"}
    finally:
        if running is not None:
            running.free()
    return {**row, "copies": copies, "ms": ms, "states_per_second": count / ms * 1e3}
