"""Figures 2 and 3 of paper 5 on the device: time over links of one chain, and over groups of chains of 10
and of 200 links, by the kernel of the constraint-force algorithm with one correction."""

import ctypes

import numpy as np
from timing import median

FIGURE_3 = (10, 200)  # links
GROUPS = (1, 10, 100, 1000, 10_000, 100_000)
_ARRAYS = ("table", "gravity", "q", "qd", "tau", "f_ext")
_OF_STATES = ("q", "qd", "tau")
_CORRECTIONS = 1


class Chains:
    """The kernel of an entry with arrays of `groups` chains on the device; a block a chain."""

    def __init__(self, entry, data, device, image, groups):
        self.entry, self.device, self.groups = entry, device, groups
        self.function, self.stream = device.function(image, entry["function"]), device.stream()
        self.held = []
        arrays = {name: data[f"{entry['name']}/{name}"] for name in _ARRAYS}
        sizes = (entry["links"], 0, 0, _CORRECTIONS)  # one gravity for all, no wrenches
        try:
            places = [
                self._put(_repeated(arrays[name], groups) if name in _OF_STATES else arrays[name])
                for name in _ARRAYS
            ]
            self.found = np.empty((groups, entry["links"]))
            places.append(self._memory(self.found.nbytes))
        except Exception:
            self.free()
            raise
        self.arguments = [*map(ctypes.c_int, sizes), *map(ctypes.c_uint64, places)]

    def _memory(self, size):
        self.held.append(self.device.memory(size))
        return self.held[-1]

    def _put(self, array):
        array = np.ascontiguousarray(array)
        place = self._memory(array.nbytes)
        self.device.put(place, array.ctypes.data, array.nbytes, self.stream)
        self.device.wait(self.stream)
        return place

    def launch(self):
        self.device.launch(self.function, self.groups, self.entry["width"], self.arguments, self.stream)

    def error(self, reference):
        """The largest beside the largest acceleration of the same chain, of as many as the reference has."""
        self.launch()
        self.device.get(self.found.ctypes.data, self.held[-1], self.found.nbytes, self.stream)
        self.device.wait(self.stream)
        found = self.found[: len(reference)]
        return float((np.abs(found - reference).max(1) / np.abs(reference).max(1)).max())

    def free(self):
        for place in self.held:
            self.device.free("memory", place)
        self.device.free("stream", self.stream)


def _repeated(rows, count):
    return rows[np.arange(count) % len(rows)]


def points(bundle, most):
    """(entry, groups) of both figures; most: groups, at most."""
    for entry in bundle.index["chains"]:
        for groups in GROUPS if entry["links"] in FIGURE_3 else (1,):
            if groups <= most:
                yield entry, groups


def timed(entry, groups, bundle, device, clock):
    """A row: milliseconds of a launch, and the error beside ABA."""
    running = Chains(entry, bundle.data, device, bundle.image(entry, device.capability), groups)
    try:
        error = running.error(bundle.data[f"{entry['name']}/qdd"][:groups])
        ms = median(clock, running)
    finally:
        running.free()
    ok = bool(error <= entry["tolerance"])
    return {"links": entry["links"], "groups": groups, "ms": ms, "error": error, "ok": ok}
