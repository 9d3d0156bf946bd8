"""Rollouts with contacts on a CUDA device: a thread runs all steps of a state. The text is that of C."""

from importlib.resources import files
from typing import Any

import numpy as np

from dynamics_node.codegen.c.contact_rollout import step_lines
from dynamics_node.codegen.cuda.device import at_work, compiled, cupy_module
from dynamics_node.codegen.cuda.device_call import ArrayError, like, taken_there
from dynamics_node.codegen.cuda.runner import MOST_OPERATIONS
from dynamics_node.codegen.printer import Variant
from dynamics_node.codegen.printer.kernel_text import head
from dynamics_node.codegen.runner import PRECISIONS
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import depth_first

BLOCK = 64  # threads; one has some 20 KB of local memory
NAME = "rollouts"
_OF_C = {"static _Thread_local ": "", "static void ": "PART ", "static const ": "CONSTANT "}
_WORDS = """
#if defined(__CUDACC__)
#define PART static __device__ __noinline__ void
#define CONSTANT static __device__ const
#else
#define PART static void
#define CONSTANT static const
#endif"""
_KERNEL = """
KERNEL rollouts(const int count, const int steps, const int sweeps, const int width, const real *control,
  const real *gains, const real *same, real *q, real *qd, real *force, real *rest)
{
  EACH_BLOCK(count) {
  EACH_THREAD {
    const int state = BLOCK * WIDTH + THREAD;
    if (state < count)
      rollout(state, state + 1, steps, sweeps, width, control, gains, same, q, qd, force, rest);
  }
  }
}
"""


def rollout_text(parts, rows, loops, dtype) -> str:
    """The text of the kernel. Raises CompileError for a step that is too long."""
    length = sum(part.program.length for part in parts.parts)
    if length > MOST_OPERATIONS:
        raise CompileError(f"{length} operations are too many for a GPU kernel")
    programs = [depth_first(part.program) for part in parts.parts]
    lines = "\n".join(step_lines(parts, programs, rows, loops, dtype))
    for of_c, word in (
        ("static _Thread_local ", ""),
        ("static void ", "PART "),
        ("static const ", "CONSTANT "),
    ):
        lines = lines.replace(of_c, word)
    words = files(__package__).joinpath("lanes.h").read_text()
    variant = Variant(PRECISIONS[dtype], block=BLOCK)
    return "\n".join([*head(variant), _WORDS, words, lines, _KERNEL])


class DeviceContactRollouts:
    """parts, rows, loops: see ContactRollouts. Everything raises ArrayError, CompileError, MemoryError."""

    def __init__(self, parts, rows, loops):
        """Raises DeviceError without CuPy or a device."""
        self._parts, self._rows, self._loops = parts, rows, loops
        self._texts: dict[np.dtype, str] = {}
        cupy_module()

    def fill(self, control, gains, same, sweeps, q, qd, force, residual):
        """As ContactRolloutKernel, with arrays of NumPy."""
        with at_work() as cupy:
            start = [cupy.asarray(np.ascontiguousarray(array[:, 0])) for array in (q, qd)]
            results = self._launched(cupy, start, cupy.asarray(control), gains, same, sweeps)
            for array, result in zip((q, qd, force, residual), results, strict=True):
                array[...] = result.get()

    def __call__(self, q0, qd0, controls, gains, same, sweeps) -> tuple[Any, ...]:
        """q, qd, forces and residuals of starts q0 (count, nq) and qd0, and of controls [(count, steps, n)]:
        all on the device, of one type. Results are of the library of q0."""
        with at_work() as cupy:
            names = ("q0", "qd0", "controls", "feedforward")
            given = {n: taken_there(cupy, n, a) for n, a in zip(names, (q0, qd0, *controls), strict=False)}
            self._require(given)
            control = [given[name] for name in names[2:] if name in given]
            control = cupy.concatenate(control, axis=2) if len(control) > 1 else control[0]
            start = [cupy.ascontiguousarray(given[name]) for name in names[:2]]
            results = self._launched(cupy, start, cupy.ascontiguousarray(control), gains, same, sweeps)
            if not isinstance(q0, cupy.ndarray):  # its library may use the memory again at once
                cupy.cuda.get_current_stream().synchronize()
            return tuple(like(cupy, q0, result) for result in results)

    def _require(self, given):
        dtype, count, places = given["q0"].dtype, len(given["q0"]), self._parts.places
        width = {name: places[name].stop - places[name].start for name in ("q", "qd", "tau")}
        sizes = {"q0": width["q"], "qd0": width["qd"], "feedforward": width["tau"]}
        sizes["controls"] = len(self._loops.v) or width["tau"]
        steps = given["controls"].shape[1:2]
        for name, array in given.items():
            if array.dtype != dtype or dtype not in (np.float32, np.float64):
                raise ArrayError(f"{name} is of {array.dtype}: all arrays must be of float32, or of float64")
            shape = (count, *(() if name.endswith("0") else steps), sizes[name])
            if array.shape != shape:
                reason = "nothing is broadcast there"
                raise ArrayError(f"{name} must have shape {shape}, not {array.shape}: {reason}")

    def _launched(self, cupy, start, control, gains, same, sweeps):
        """See __call__; start: q0, qd0."""
        dtype, (count, steps, width) = np.dtype(control.dtype), control.shape
        if dtype not in self._texts:
            self._texts[dtype] = rollout_text(self._parts, self._rows, self._loops, dtype)
        numbers = [np.concatenate([np.ravel(same[name]) for name in ("dt", "gravity")])]
        numbers.append(np.ravel(gains) if len(gains) else np.zeros(1))
        shared, gains = (cupy.asarray(array.astype(dtype)) for array in numbers)
        sizes = [(steps + 1, array.shape[1]) for array in start]
        sizes += [(steps, 3 * len(self._rows.touches))]
        results = [cupy.empty((count, *size), dtype) for size in sizes]
        results.append(cupy.empty((count, steps), dtype))
        for result, array in zip(results, start, strict=False):
            result[:, 0] = array
        if count and steps:
            counts, blocks = map(np.int32, (count, steps, sweeps, width)), -(-count // BLOCK)
            kernel = compiled(self._texts[dtype], NAME)
            kernel((blocks,), (BLOCK,), (*counts, control, gains, shared, *results))
        return tuple(results)
