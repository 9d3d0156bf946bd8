"""What the device can do at best: bytes copied and fused multiply-adds, a second."""

import ctypes

from timing import CACHE, median

_FLOPS_A_THREAD = 2 * 8 * 4096  # of `ffma`: 8 chains, 4096 rounds
_BLOCK, _MOST_BLOCKS = 256, 65535


class _Running:
    """A kernel of ceilings.cu, as `median` launches it."""

    def __init__(self, device, image, name, blocks, arguments):
        self.device, self.blocks, self.arguments = device, blocks, arguments
        self.function, self.stream = device.function(image, name), device.stream()

    def launch(self):
        self.device.launch(self.function, self.blocks, _BLOCK, self.arguments, self.stream)


def measured(device, clock, image, size=4 * CACHE):
    """Rows: bytes/s of a copy (read and written both count), float and double FLOP/s."""
    size = min(size, device.free_bytes() // 4) // 16 * 16
    places = [device.memory(size) for _ in range(2)]
    try:
        yield _copy(device, clock, image, size, places)
        for name in ("ffma", "dfma"):
            yield _fused(device, clock, image, name, places[0], size)
    finally:
        for place in places:
            device.free("memory", place)


def _copy(device, clock, image, size, places):
    count = size // 16
    blocks = min(_MOST_BLOCKS, -(-count // _BLOCK))
    arguments = [ctypes.c_int(count), *map(ctypes.c_uint64, places)]
    running = _Running(device, image, "copy", blocks, arguments)
    ms = median(clock, running)
    device.free("stream", running.stream)
    return {"ceiling": "copy", "value": 2 * size / ms * 1e3 if ms > 0 else None, "unit": "bytes/s"}


def _fused(device, clock, image, name, place, size):
    blocks = min(device.processors * 16, size // (8 * _BLOCK))
    running = _Running(device, image, name, blocks, [ctypes.c_uint64(place)])
    ms = median(clock, running)
    device.free("stream", running.stream)
    flops = blocks * _BLOCK * _FLOPS_A_THREAD
    return {"ceiling": name, "value": flops / ms * 1e3 if ms > 0 else None, "unit": "FLOP/s"}
