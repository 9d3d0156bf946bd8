"""Rollouts on a CUDA device: a launch for every stage of every step, with arrays that stay there."""

from typing import Any

import numpy as np

from dynamics_node.codegen.cuda.device import at_work
from dynamics_node.codegen.cuda.device_call import (
    COLUMNS,
    ArrayError,
    launch,
    like,
    shared_arrays,
    taken_there,
)
from dynamics_node.codegen.cuda.runner import CudaRunner

_READ = {"q0": "q", "qd0": "qd", "controls": "tau"}  # inputs of a stage, by argument


class DeviceRollouts:
    """runner: of a stage, see Rollouts; stages (stages, coefficients). same: {name: array of NumPy} of inputs
    that all states share. Everything raises ArrayError, CompileError, MemoryError."""

    def __init__(self, runner: CudaRunner, stages: np.ndarray):
        self._runner, self._stages = runner, stages

    def fill(self, tau, same, q, qd):
        """As Rollouts, with arrays of NumPy."""
        with at_work() as cupy:
            columns = (q[:, 0].T, qd[:, 0].T, tau.transpose(1, 2, 0))
            first, second, torques = (cupy.asarray(np.ascontiguousarray(array)) for array in columns)
            results = self._launched(cupy, {"q": first, "qd": second}, torques, same)
            for array, result in zip((q, qd), results, strict=True):
                array[...] = result.get().transpose(2, 0, 1)

    def __call__(self, q0, qd0, tau, same) -> tuple[Any, Any]:
        """q (count, steps + 1, nq) and qd of a start q0 (count, nq) and qd0, and of tau (count, steps, nv):
        all on the device, of one type, that of the arithmetic. Results are of the library of q0."""
        with at_work() as cupy:
            given = {name: taken_there(cupy, name, a) for name, a in zip(_READ, (q0, qd0, tau), strict=True)}
            self._require(given)
            start = {name: cupy.ascontiguousarray(given[f"{name}0"].transpose(1, 0)) for name in ("q", "qd")}
            torques = cupy.ascontiguousarray(given["controls"].transpose(1, 2, 0))
            results = self._launched(cupy, start, torques, same)
            if not isinstance(q0, cupy.ndarray):  # its library may use the memory again at once
                cupy.cuda.get_current_stream().synchronize()
            first, second = (like(cupy, q0, result.transpose(2, 0, 1)) for result in results)
            return first, second

    def _require(self, given):
        dtype, count = given["q0"].dtype, len(given["q0"])
        for name, array in given.items():
            if array.dtype != dtype or dtype not in (np.float32, np.float64):
                raise ArrayError(f"{name} is of {array.dtype}: all arrays must be of float32, or of float64")
            shape = (count, *array.shape[1:2] * (name == "controls"), *self._runner.inputs[_READ[name]])
            if array.shape != shape:
                reason = "nothing is broadcast there"
                raise ArrayError(f"{name} must have shape {shape}, not {array.shape}: {reason}")

    def _launched(self, cupy, carried, tau, same):
        """q (steps + 1, nq, count) and qd, of a start {'q': (nq, count), 'qd': (nv, count)}; tau (steps, nv,
        count)."""
        (_, count), dtype = carried["q"].shape, tau.dtype
        same = {name: np.asarray(array, dtype=dtype) for name, array in same.items()}
        inputs = self._runner.inputs
        kernel = self._runner.kernel(dtype, COLUMNS, {*same, "stage"} & inputs.keys())
        if count > kernel.most_states:
            raise ArrayError(f"{count} states are too many at a time: give at most {kernel.most_states}")
        shared = shared_arrays(cupy, kernel, same)
        if "hidden" in inputs:
            carried["hidden"] = cupy.zeros((*inputs["hidden"], count), dtype)
        along = [carried]
        for t in range(len(tau)):
            for stage in self._stages:
                given = {**carried, **shared, "tau": tau[t]}
                carried = {name: cupy.empty(array.shape, dtype) for name, array in carried.items()}
                launch(cupy, kernel, count, given, carried, {**same, "stage": stage})
            along.append(carried)
        return tuple(cupy.stack([one[name] for one in along]) for name in ("q", "qd"))
