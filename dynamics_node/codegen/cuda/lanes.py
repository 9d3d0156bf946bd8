"""Batches of NumPy's arrays through the device, a piece after the other.

While one piece is computed and copied, the next is on its way. All outputs of a state without a result are
NaN.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from dynamics_node.codegen.cuda.device import Device
from dynamics_node.codegen.errors import OUT_OF_MEMORY, CudaError

GRAVITY = "gravity"  # an input that mostly is the same in all states
PRECISIONS: dict[np.dtype, Literal["float", "double"]] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}
MOST_BYTES = 32 * 2**20  # of a lane: longer pieces are no faster
LEAST_BYTES = 2**20
PIECES = 6  # of a batch that could go in fewer: so that copies overlap
LEAST_STATES = 16384  # of such a piece
_ALIGNED = 256  # bytes
LANES = 2
_lock = threading.Lock()


class Batch(NamedTuple):
    """Arrays of NumPy for a call. arrays: {name: (states, *shape)}; same: {name: (*shape)} of what is the
    same in all states, parameters among them."""

    states: int
    dtype: np.dtype
    arrays: dict[str, np.ndarray]
    same: dict[str, np.ndarray]


def placed(program, quaternions) -> dict[str, list[int]]:
    """{input: where quaternions begin in it}, which begin at some places among all entries. A kernel looks at
    those that differ from state to state."""
    found: dict[str, list[int]] = {}
    start = 0
    for name, shape in program.inputs.items():
        end = start + int(np.prod(shape, dtype=int))
        if places := [place - start for place in quaternions if start <= place < end]:
            found[name] = places
        start = end
    return found


def example(
    inputs: Mapping[str, tuple[int, ...]],
    parameters: Mapping[str, np.ndarray],
    turning: Mapping[str, list[int]],
    count: int,
    dtype: np.dtype,
) -> Batch:
    """Some states for a trial. inputs: shapes; turning: where quaternions begin."""
    random, arrays, same = np.random.default_rng(0), {}, dict(parameters)
    for name, shape in inputs.items():
        if name == GRAVITY:
            same[name] = random.uniform(-1.0, 1.0, shape).astype(dtype)
        else:
            arrays[name] = random.uniform(-1.0, 1.0, (count, *shape)).astype(dtype)
    for name, places in turning.items():
        for place in places:
            arrays[name].reshape(count, -1)[:, place : place + 4] = (0, 0, 0, 1)
    return Batch(count, dtype, arrays, same)


def bad_states(outputs) -> np.ndarray:
    """Which states (count,) have no result: all outputs of such a state are NaN, so one entry tells."""
    array = next((array for array in outputs if array[0].size), outputs[0])
    return np.isnan(array.reshape(len(array), -1)[:, :1]).any(axis=1)


class Lane:
    """A stream with memory on both sides. Not for two threads at a time."""

    def __init__(self, device: Device, size: int):
        """Raises CudaError."""
        self._device, self.size = device, size
        self._held: list[tuple[str, int]] = []
        try:
            self.stream = self._hold("stream", device.stream())
            self.there = self._hold("memory", device.memory(size))
            self.here = self._hold("pinned", device.pinned(size))
        except CudaError:
            self.free()
            raise
        self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.here))
        self._results: list[tuple[np.ndarray, np.ndarray]] = []
        self._busy = False

    def _hold(self, kind, handle):
        self._held.append((kind, handle))
        return handle

    def free(self):
        """Give all back; it must not be busy."""
        for kind, handle in reversed(self._held):
            self._device.free(kind, handle)
        self._held.clear()

    def part(self, at: int, shape, dtype) -> np.ndarray:
        """An array in the memory of this side."""
        return (
            self._bytes[at : at + int(np.prod(shape, dtype=int)) * dtype.itemsize].view(dtype).reshape(shape)
        )

    def put(self, at: int, array: np.ndarray):
        """Copy to the other side; the array may change afterwards."""
        self._busy = True
        self.part(at, array.shape, array.dtype)[...] = array
        self._device.put(self.there + at, self.here + at, array.nbytes, self.stream)

    def get(self, at: int, array: np.ndarray):
        """Copy from the other side, into the array when `finish` is called."""
        self._device.get(self.here + at, self.there + at, array.nbytes, self.stream)
        self._results.append((array, self.part(at, array.shape, array.dtype)))

    def finish(self):
        """Wait for what was given to the stream, and hand over results."""
        if self._busy:
            self._device.wait(self.stream)
            self._busy = False
        for array, part in self._results:
            array[...] = part
        self._results.clear()

    def give_up(self):
        """Wait, so that nothing moves here later; results are nobody's any more."""
        self._results.clear()
        with suppress(CudaError):
            self.finish()
        self._busy = False


_idle: WeakKeyDictionary[Device, list[Lane]] = WeakKeyDictionary()  # for the next batch


@contextmanager
def _lanes(device, number, size) -> Iterator[list[Lane]]:
    """So many lanes of at least a size for this thread. Raises CudaError."""
    taken: list[Lane] = []
    try:
        for _ in range(number):
            taken.append(_idle_lane(device, size) or Lane(device, size))
        yield taken
    finally:
        for lane in taken:
            lane.give_up()
        with _lock:
            _idle.setdefault(device, []).extend(taken)


def _idle_lane(device, size):
    """One that is large enough; those that are not make way."""
    with _lock:
        idle = _idle.pop(device, [])
        fitting = [lane for lane in idle if lane.size >= size]
        _idle[device] = fitting[1:]
    for lane in idle:
        if lane not in fitting:
            lane.free()
    return fitting[0] if fitting else None


class Pieces(NamedTuple):
    """A batch of `states`, at most `each` at a time; sizes: bytes of one state in every array of it."""

    states: int
    each: int
    sizes: tuple[int, ...]

    @property
    def places(self) -> list[int]:
        """Where in a lane the arrays begin, and where the last one ends."""
        found = [0]
        for size in self.sizes:
            found.append(found[-1] + -(-size * self.each // _ALIGNED) * _ALIGNED)
        return found


def in_pieces(count: int, sizes, most: int, block: int) -> Pieces:
    """Pieces of whole blocks: at most `most` states, what fits into a lane, and several of a long batch."""
    fitting = (MOST_BYTES - _ALIGNED * len(sizes)) // max(1, sum(sizes))
    each = min(most, fitting, max(LEAST_STATES, -(-count // PIECES)))
    return Pieces(count, count if count <= each else max(1, each // block) * block, tuple(sizes))


def run(device: Device, pieces: Pieces, work: Callable[[Lane, list[int], int, int], None]):
    """work(lane, places, start, stop) for every piece, over two lanes; in smaller pieces where memory is
    short. Inside `device.at_work()`. Raises CudaError."""
    while True:
        size = max(LEAST_BYTES, 1 << (pieces.places[-1] - 1).bit_length())
        try:
            with _lanes(device, min(LANES, -(-pieces.states // pieces.each)), size) as lanes:
                return _run(lanes, pieces, work)
        except CudaError as error:
            if error.number != OUT_OF_MEMORY or size <= LEAST_BYTES:
                raise
        pieces = pieces._replace(each=-(-pieces.each // 2))


def _run(lanes, pieces, work):
    for k, start in enumerate(range(0, pieces.states, pieces.each)):
        lane = lanes[k % len(lanes)]
        lane.finish()
        work(lane, pieces.places, start, min(start + pieces.each, pieces.states))
    for lane in lanes:
        lane.finish()
