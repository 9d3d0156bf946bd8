"""What the device can do at best: bytes copied and fused multiply-adds, a second."""

import ctypes

from timing import median

_CHAINS = 32  # of ceilings.cu: fused multiply-adds of a round
_MOST_BYTES, _BLOCKS = 1 << 30, 64  # of a copy; of a multiprocessor


class _Running:
    """A kernel of ceilings.cu, as `median` launches it."""

    def __init__(self, device, image, name, width, count, places):
        self.device, self.width, self.blocks = device, width, -(-count // width)
        self.function, self.stream = device.function(image, name), device.stream()
        self.arguments = [ctypes.c_int(count), *map(ctypes.c_uint64, places)]

    def launch(self):
        self.device.launch(self.function, self.blocks, self.width, self.arguments, self.stream)


def measured(device, clock, images, width, rounds, most):
    """Rows: bytes/s of a copy (read and written both count), FLOP/s of float and of double. images
    {precision: cubin}; width: threads of a block; rounds: of a chain; most: threads of the copy, at most."""
    count = min(_MOST_BYTES // 32, most)
    size = 32 * count
    places = [device.memory(size) for _ in range(2)]
    try:
        copy = _Running(device, images["double"], "copy", width, count, places)
        yield _row("copy", "bytes/s", 2 * size, device, clock, copy)
        for precision, image in images.items():
            threads = min(_BLOCKS * width * device.processors, size // 8)
            work = 2 * _CHAINS * rounds * threads
            chains = _Running(device, image, "chains", width, threads, places[1:])
            yield _row(f"multiply-adds {precision}", "FLOP/s", work, device, clock, chains)
    finally:
        for place in places:
            device.free("memory", place)


def _row(name, unit, work, device, clock, running):
    ms = median(clock, running)
    device.free("stream", running.stream)
    return {"ceiling": name, "value": work / ms * 1e3, "unit": unit}
