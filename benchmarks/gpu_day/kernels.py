"""The kernels of the bundle: read from its files, given arrays on the device, launched."""

import ctypes
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
_REAL = {"float": (np.float32, ctypes.c_float), "double": (np.float64, ctypes.c_double)}


class Bundle:
    """kernels.json and data.npz beside this file."""

    def __init__(self, folder=HERE):
        self.index = json.loads((Path(folder) / "kernels.json").read_text())
        with np.load(Path(folder) / "data.npz") as data:
            self.data = {name: data[name] for name in data.files}
        self.kernels = [BundledKernel(entry, self.data) for entry in self.index["kernels"]]

    def image(self, entry, capability):
        """The cubin of an entry for a device, None where there is none."""
        key = fitting(entry["cubins"], capability)
        return None if key is None else self.data[key].tobytes()


class BundledKernel:
    """One kernel: its entry in the index, states, the outputs that are expected of it to the bit, and a
    reference in float64."""

    def __init__(self, entry, data):
        self.entry, self.name, self.layout = entry, entry["name"], entry["layout"]
        self.dtype, self.number = _REAL[entry["precision"]]
        robot, kinds = entry["robot"], {name: kind for name, kind, *_ in entry["arguments"]}
        outputs = [name for name, kind in kinds.items() if kind == "output"]
        inputs = [name for name, kind in kinds.items() if kind not in ("output", "count")]
        self.inputs = {name: data[f"{robot}/{name}"] for name in inputs}
        self.states = len(self.inputs["q"])
        self.expected = {name: data[f"{entry['digest']}/{name}"] for name in outputs}
        self.reference = {name: data[f"{robot}/{entry['problem']}/{name}"] for name in outputs}
        self.bytes = entry["bytes"]

    def array(self, name, count):
        """An input of `count` states as the kernel reads it; the states of the bundle over and over."""
        rows = self.inputs[name].astype(self.dtype).reshape(self.states, -1)
        rows = rows[np.arange(count) % self.states]
        return np.ascontiguousarray(rows.T if self.layout == "columns" else rows)


def fitting(cubins, capability):
    """The key of the cubin for a device: of the same major version, the newest minor that runs there; None
    for none."""
    archs = [int(arch) for arch in cubins if int(arch) // 10 == capability // 10 and int(arch) <= capability]
    return cubins[str(max(archs))] if archs else None


class OnDevice:
    """A kernel with `copies` sets of arrays on the device, one after the other for each launch: so no
    launch finds what the one before left in the cache. Raises CudaError, and holds nothing then."""

    def __init__(self, kernel, device, image, count, copies=1):
        self.kernel, self.device, self.count, self.held = kernel, device, count, []
        self.function = device.function(image, kernel.entry["function"])
        self.stream = device.stream()
        self.turn, self.outputs, self.copies, self.kept = 0, {}, copies, {}
        try:
            self.sets = [
                [self._value(*argument) for argument in kernel.entry["arguments"]] for _ in range(copies)
            ]
        except Exception:
            self.free()
            raise

    def _value(self, name, kind, size, position):
        """An argument as a value of ctypes."""
        kernel = self.kernel
        if kind == "count":
            return ctypes.c_int(self.count)
        if kind == "number":
            return kernel.number(float(kernel.inputs[name].flat[position]))
        if kind == "output":
            shape = (size, self.count) if kernel.layout == "columns" else (self.count, size)
            self.outputs[name] = self._memory(self.count * size * kernel.dtype().nbytes), shape
            return ctypes.c_uint64(self.outputs[name][0])
        return ctypes.c_uint64(self._put(self._input(name, kind)))

    def _input(self, name, kind):
        """Kept where there are many sets, which are small."""
        if name in self.kept:
            return self.kept[name]
        same = kind == "same"
        array = (
            self.kernel.inputs[name].astype(self.kernel.dtype)
            if same
            else self.kernel.array(name, self.count)
        )
        if self.copies > 1:
            self.kept[name] = array
        return array

    def _memory(self, size):
        self.held.append(self.device.memory(size))
        return self.held[-1]

    def _put(self, array):
        place = self._memory(array.nbytes)
        self.device.put(place, array.ctypes.data, array.nbytes, self.stream)
        self.device.wait(self.stream)
        return place

    def launch(self):
        """With the next set of arrays."""
        block, arguments = self.kernel.entry["block"], self.sets[self.turn]
        self.turn = (self.turn + 1) % len(self.sets)
        self.device.launch(self.function, -(-self.count // block), block, arguments, self.stream)

    def results(self):
        """{output: array (count, size)} of the last set."""
        found = {}
        for name, (place, shape) in self.outputs.items():
            array = np.empty(shape, self.kernel.dtype)
            self.device.get(array.ctypes.data, place, array.nbytes, self.stream)
            self.device.wait(self.stream)
            found[name] = array.T if self.kernel.layout == "columns" else array
        return found

    def free(self):
        for place in self.held:
            self.device.free("memory", place)
        self.device.free("stream", self.stream)
