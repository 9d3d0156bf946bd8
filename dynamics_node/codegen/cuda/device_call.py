"""One call of a Runner with arrays that lie on the device: nothing is copied, nothing waits that need not."""

import math

import numpy as np

from dynamics_node.codegen.cuda.device import LEGACY_STREAM
from dynamics_node.codegen.cuda.device_arrays import (
    COLUMNS,
    ROWS,
    ArrayError,
    DeviceArray,
    View,
    on_device,
    view,
)
from dynamics_node.codegen.cuda.first_bad import first_bad
from dynamics_node.codegen.cuda.launching import launch
from dynamics_node.codegen.cuda.opened import device


class DeviceCall:
    """The arrays of a call, looked at.

    All arrays of states (..., *shape) lie on the device, over the same leading axes, of one type, which is
    that of the arithmetic, in one layout, which is that of the results. What is given as an array of NumPy
    (*shape) is the same in all states.

    The kernel is given to the stream that the inputs tell, and the results tell it; where one tells none, the
    results are there when the call returns.
    """

    def __init__(self, runner, inputs, out=None):
        """inputs: in the order of runner.inputs; out: a tuple of arrays for the results. Raises ArrayError,
        CudaError."""
        self._runner, self._out = runner, out
        given = dict(zip(runner.inputs, inputs, strict=True))
        self._there = {name: view(name, value) for name, value in given.items() if on_device(value)}
        first = next(iter(self._there.values()))
        self.dtype, self.batch = first.dtype, first.shape[: len(first.shape) - len(runner.inputs[first.name])]
        self.count = math.prod(self.batch)
        for found in self._there.values():
            self._require(found, runner.inputs[found.name], first)
        self._same = runner.parameters_in(self.dtype)
        self._same |= {
            name: self._here(name, value) for name, value in given.items() if name not in self._there
        }
        self._results = self._places(out)
        self.layout = self._common_layout()

    def _require(self, found: View, shape, first: View):
        if found.dtype != self.dtype:
            raise ArrayError(
                f"{found.name} is of {found.dtype}, {first.name} of {self.dtype}: one type is needed"
            )
        if found.shape != (*self.batch, *shape):
            told = f"{found.name} must have shape {(*self.batch, *shape)}, not {found.shape}"
            raise ArrayError(f"{told}: arrays on the device are not broadcast")

    def _here(self, name, value):
        shape, values = self._runner.inputs[name], np.asarray(value, dtype=self.dtype)
        if values.shape != shape:
            told = f"{name} {values.shape} does not lie on the device: copy it there (DeviceArray.of)"
            raise ArrayError(f"{told}, or give what is the same in all states, {shape}")
        if not np.isfinite(values).all():
            raise ArrayError(f"{name} is not finite")
        return values

    def _places(self, out):
        """{name: View} of the caller's arrays for results, none where there are none."""
        if out is None:
            return {}
        shapes = self._runner.outputs
        found = {name: view("out", place, written=True) for name, place in zip(shapes, out, strict=True)}
        for name, place in found.items():
            self._require(place, shapes[name], next(iter(self._there.values())))
        return found

    def _common_layout(self):
        laid = [(found, len(self._runner.inputs[found.name])) for found in self._there.values()]
        laid += [(found, len(self._runner.outputs[name])) for name, found in self._results.items()]
        for layout in (ROWS, COLUMNS):
            if all(layout in found.layouts(axes) for found, axes in laid):
                return layout
        told = ", ".join(
            f"{found.name} {'/'.join(sorted(found.layouts(axes))) or 'neither'}" for found, axes in laid
        )
        raise ArrayError(
            "all arrays must lie alike, C-contiguous (rows) or in Fortran's order (columns): "
            f"{told}; copy those that do not, as by cupy.ascontiguousarray"
        )

    def __call__(self, raises=False):
        """The results, a tuple of DeviceArrays or the caller's arrays; with `raises` also the number of the
        first state without one, None where there is none; the call waits for that. Raises CompileError,
        CudaError."""
        chosen = self._runner.chosen(self.dtype, self.layout, self._same.keys())
        given = [*self._there.values(), *self._results.values()]
        streams = list(dict.fromkeys(LEGACY_STREAM if g.stream is None else g.stream for g in given))
        waits, bad = any(g.stream is None for g in given), None
        there = device()
        with there.at_work():
            stream = streams[0]
            results = self._out or self._made(None if waits else stream)
            for other in streams[1:]:
                there.follow(stream, other)
            if self.count:
                places = self._addresses(results)
                self._launch(chosen, places, stream)
                bad = self._first_bad(places, stream) if raises else None
            for other in streams[1:]:
                there.follow(other, stream)
            if waits:
                there.wait(stream)
        return tuple(results), bad

    def _made(self, stream):
        """New arrays for the results."""
        return [
            DeviceArray((*self.batch, *shape), self.dtype, self.layout, len(shape), stream)
            for shape in self._runner.outputs.values()
        ]

    def _addresses(self, results):
        """{name of an output: address}"""
        if self._results:
            return {name: found.address for name, found in self._results.items()}
        return {name: made.address for name, made in zip(self._runner.outputs, results, strict=True)}

    def _launch(self, chosen, places, stream):
        """In as many parts as indices need."""
        most = chosen.kernel.most_states
        if self.count > most and self.layout == COLUMNS:
            raise ArrayError(f"{self.count} states in columns are too many at a time: give at most {most}")
        inputs = {name: found.address for name, found in self._there.items()}
        # freed where the name goes, which waits for what reads them
        constants = self._runner.constants(chosen.kernel, self._same, self.dtype)
        known = {name: array.address for name, array in constants.items()}
        for start in range(0, self.count, most):
            launch(
                device(),
                chosen.kernel,
                chosen.cubin.image,
                min(most, self.count - start),
                known | self._moved(inputs, self._runner.inputs, start),
                self._moved(places, self._runner.outputs, start),
                self._same,
                stream,
            )

    def _moved(self, addresses, shapes, start):
        """Addresses of the rows from a state on."""
        step = start * self.dtype.itemsize
        return {name: address + step * math.prod(shapes[name]) for name, address in addresses.items()}

    def _first_bad(self, places, stream):
        """All outputs of a state without a result are NaN: one entry of each is looked at."""
        name, size = next(
            (name, math.prod(shape)) for name, shape in self._runner.outputs.items() if math.prod(shape)
        )
        stride = size if self.layout == ROWS else 1
        return first_bad(self._runner.compiler(), self.dtype, self.count, places[name], stride, stream)
