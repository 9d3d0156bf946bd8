"""Medians of kernels by the device's own clock."""

import ctypes
import statistics

from kernels import OnDevice

CACHE = 4 * 64 << 20  # bytes in turn between two uses of an array: four times the largest L2
COUNTS = (1000, 10_000, 100_000, 1_000_000, 4_000_000)
_ROUNDS, _MOST_LAUNCHES, _LEAST_MS = 9, 2000, 2.0


class Clock:
    """Two events of a stream."""

    def __init__(self, driver):
        self.driver = driver
        self.begin, self.end = (driver.asked("cuEventCreate", ctypes.c_void_p, 0) for _ in range(2))
        self.elapsed = (
            "cuEventElapsedTime_v2" if driver.has("cuEventElapsedTime_v2") else "cuEventElapsedTime"
        )

    def milliseconds(self, stream, work):
        self.driver("cuEventRecord", self.begin, stream)
        work()
        self.driver("cuEventRecord", self.end, stream)
        self.driver("cuEventSynchronize", self.end)
        found = ctypes.c_float()
        self.driver(self.elapsed, ctypes.byref(found), self.begin, self.end)
        return found.value

    def close(self):
        for event in self.begin, self.end:
            self.driver("cuEventDestroy_v2", event)


def median(clock, running):
    """Milliseconds of one launch: the median of rounds, each with so many launches that it takes some
    milliseconds."""

    def several():
        for _ in range(launches):
            running.launch()

    launches = 1
    warm = max(clock.milliseconds(running.stream, several) for _ in range(3))
    launches = max(1, min(_MOST_LAUNCHES, round(_LEAST_MS / max(warm, 1e-3))))
    return statistics.median(clock.milliseconds(running.stream, several) / launches for _ in range(_ROUNDS))


def timed(kernel, device, clock, image, count):
    """A row: milliseconds a launch and states a second; or why not."""
    row = {"kernel": kernel.name, "count": count, "ms": None, "states_per_second": None, "reason": None}
    size = kernel.bytes * count
    copies = max(1, min(256, CACHE // size))
    if size * copies > 0.8 * device.free_bytes():
        return {**row, "reason": f"{size * copies >> 20} MB do not fit"}
    running = OnDevice(kernel, device, image, count, copies)
    try:
        ms = median(clock, running)
    finally:
        running.free()
    return {**row, "ms": ms, "states_per_second": count / ms * 1e3 if ms > 0 else None}
