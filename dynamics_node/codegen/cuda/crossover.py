"""From how many states on the device is faster than the CPU, for arrays of NumPy: measured once for a
Program, a device and a processor, and noted in the cache."""

import json
from contextlib import suppress
from time import perf_counter

import numpy as np

from dynamics_node.codegen.c.shared_library import hash_here
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.cuda.errors import CudaError
from dynamics_node.codegen.cuda.opened import device, say_once
from dynamics_node.codegen.errors import CompileError

SIZES = tuple(2**k for k in range(12, 19))  # states that are tried
REPEATS = 3
NEVER = 2**62


class Crossover:
    """Of a Program."""

    def __init__(self, program):
        self._digest = program.digest()
        self._least: dict[np.dtype, int] = {}

    def pays(self, count: int, dtype: np.dtype, runner) -> bool:
        """Whether the device is faster for so many states. A first batch of some thousand is when it is
        compiled and measured."""
        if count < SIZES[0]:
            return False
        if dtype not in self._least:
            try:
                self._least[dtype] = self._found(dtype, runner)
            except (CompileError, CudaError) as error:
                say_once(f"no GPU for batches: {error}")
                self._least[dtype] = NEVER
        return count >= self._least[dtype]

    def __getstate__(self):
        return self.__dict__ | {"_least": {}}  # of the device of a process

    def _found(self, dtype, runner):
        note = f"{hash_here(self._digest, dtype.name, device().name, __doc__)}.crossover"
        kept = _read(note)
        if kept is None:
            kept = first_faster(*measured(runner, dtype))
            with suppress(CompileError):
                write_entry(note, json.dumps(kept).encode())
        return kept


def _read(note):
    with suppress(CompileError):
        if content := read_entry(note):
            return json.loads(content)
    return None


def measured(runner, dtype) -> tuple[dict[int, float], dict[int, float]]:
    """{states: s} of the device and of the CPU. Raises CompileError, CudaError."""
    there, here = {}, {}
    for count in SIZES:
        batch = runner.example(count, dtype)
        chosen = runner.chosen(dtype, "rows", batch.same.keys())
        every = {**batch.arrays, **batch.same}
        inputs = [every[name] for name in runner.inputs]
        there[count] = _shortest(lambda b=batch, c=chosen: runner.compute(b, c))
        here[count] = _shortest(lambda n=count, i=inputs: runner.beside.run(n, i, dtype))
    return there, here


def first_faster(there: dict[int, float], here: dict[int, float]) -> int:
    """The first size from which on the device is faster at all sizes, NEVER where it is not at the
    largest."""
    found = NEVER
    for count in sorted(there, reverse=True):
        if there[count] >= here[count]:
            break
        found = count
    return found


def _shortest(work):
    work()  # what is made once
    times = []
    for _ in range(REPEATS):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)
