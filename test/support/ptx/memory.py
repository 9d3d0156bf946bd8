"""Device memory: allocations far apart, so that an address beyond one is in none."""

import numpy as np

from .shadow import Shadow

_FIRST, _APART = 0x7F0000000000, 1 << 33


class Region:
    """One allocation: its address, its bytes, which words were ever written, and the marks of one run."""

    def __init__(self, address, content, initialised):
        self.address, self.content = address, content
        self.initialised = np.full(-(-len(content) // 4), initialised)
        self.shadow = None

    def __len__(self):
        return len(self.content)

    def begin(self):
        """A new launch: what ran before is over."""
        self.shadow = Shadow(len(self.initialised), self.initialised)

    def view(self, dtype):
        """The content as numbers, as far as it is whole ones."""
        return self.content[: len(self.content) // dtype.itemsize * dtype.itemsize].view(dtype)


class Memory:
    """What a kernel's pointers may point to."""

    def __init__(self):
        self.regions = []

    def allocate(self, size):
        """Address of so many bytes, in which nothing is written yet."""
        return self._add(np.zeros(size, np.uint8), False)

    def put(self, array):
        """Address of a copy of an array."""
        return self._add(np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).copy(), True)

    def adopt(self, address, content, initialised=True):
        """Bytes that lie elsewhere, in place: (size,) of uint8 at an address that a kernel is given."""
        self.regions.append(Region(address, content, initialised))
        self.regions.sort(key=lambda region: region.address)

    def get(self, address, dtype, shape):
        """A copy of the array at the address of an allocation."""
        region = next(region for region in self.regions if region.address == address)
        return region.view(np.dtype(dtype))[: np.prod(shape, dtype=int)].reshape(shape).copy()

    def _add(self, content, initialised):
        address = _FIRST + _APART * len(self.regions)
        self.adopt(address, content, initialised)
        return address

    def parts(self, addresses):
        """(region or None, which of the addresses are in it or beyond it) for the regions that are meant."""
        starts = np.array([region.address for region in self.regions], np.int64)
        number = np.searchsorted(starts, addresses, "right") - 1
        for k in np.unique(number):
            yield (self.regions[k] if k >= 0 else None), np.flatnonzero(number == k)
