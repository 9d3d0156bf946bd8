"""A compiled Program as functions of Python: one state, the states of a small batch."""

import ctypes
from copy import copy
from functools import cache, partial

import numpy as np

from dynamics_node.codegen.c.compiler import (
    FOR_LANES,
    FOR_LIMBS,
    FOR_LONG_LIMBS,
    SCHEDULED,
    CompileOption,
    compile_fastest,
    open_library,
)
from dynamics_node.codegen.c.library import Loaded, builtin_function, called_at_once, trust_arrays
from dynamics_node.codegen.c.render import BATCH, render, renderer
from dynamics_node.codegen.c.threads import in_parts, threads_worth
from dynamics_node.codegen.result_memory import new_array
from dynamics_node.codegen.runner import returned, taken, usable
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import LaneProgram, Program, vectorize

SHORTER = 0.75  # of the operations: lanes that leave no more need no trial
LONG = 5000  # operations above which GCC's own vectors, beside those of limbs, cost time
SHORT, QUICK = 100, 20_000  # operations that take no time to speak of, and that are compiled in a second
TRIED = 100  # states of a trial
MOST_OPERATIONS = 500_000  # in two or three minutes


class Kernel(Loaded):
    """kernel.call_one(*inputs, *outputs) for one state, kernel.call_new(result, *inputs) for less than BATCH,
    see call.c; kernel(count, *inputs) for any number of states and any arrays.

    parameters: {name: array} of the Program's last inputs, which a call does not take. Nor does it give
    health, the last output of a Program with limits: it declines beyond them. reordered: the same
    operations in another order; isomorphic_inputs: those that go together on lanes, see `vectorize`; the
    fastest one runs.
    """

    PER_PROCESS = ("_entry", "_library", "_rows", "call_new", "call_one")

    def __init__(self, program, parameters=None, quaternions=(), reordered=None, isomorphic_inputs=()):
        self._names, self._quaternions = tuple(parameters or ()), tuple(quaternions)
        self._reordered, self._isomorphic_inputs = reordered, tuple(isomorphic_inputs)
        self._operations = sum(program.op_count().values())  # counting takes milliseconds
        self.inputs, self.outputs = taken(program, self._names), returned(program)
        self._pack(parameters or {})
        super().__init__(program)

    def _compile(self):
        length = self.program.length
        if length > MOST_OPERATIONS:
            raise CompileError(f"{length} operations are too many to compile")
        worth_it = _is_worth_it(self.program)
        flags = FOR_LANES if isinstance(self.program, LaneProgram) else SCHEDULED if worth_it else ()
        options = {"traced": self._option(self.program, flags)}
        if self._reordered is not None:
            options["reordered"] = self._option(self._reordered, SCHEDULED)
        if not (self._isomorphic_inputs and worth_it):
            return compile_fastest(options, self._trial)
        together = cache(lambda: vectorize(self.program, self._isomorphic_inputs))  # a second, of a humanoid
        flags = FOR_LIMBS if length <= LONG else FOR_LONG_LIMBS
        options["side by side"] = self._option(self.program, flags, self._isomorphic_inputs, together)
        return compile_fastest(options, self._trial, partial(_promising, self.program, [*options], together))

    def _option(self, program, flags, rows=(), together=None):
        """rows: of isomorphic inputs; together(): the LaneProgram, where there are some."""
        how = (self._names, self._quaternions)
        return CompileOption(
            f"{renderer()} {program.digest()} {how} {rows}",
            lambda: render(program if together is None else together(), *how),
            flags,
        )

    def _trial(self, key):
        """A function that runs a library over some states."""
        run = _entry(open_library(key))
        x = np.random.default_rng(0).uniform(-1.0, 1.0, (TRIED, sum(self._sizes)))
        y = np.empty((TRIED, self._outputs))
        return lambda: run(TRIED, x.ctypes.data, y.ctypes.data)

    def _open(self, library):
        self._library, self._entry = library, _entry(library)
        trust_arrays(library, np.float64)
        library.allocate_with.argtypes = (ctypes.py_object,)
        library.allocate_with(np.empty)
        self._wrap()

    def _wrap(self):
        self.call_one = builtin_function(self._library, "solve_definition", self._parameters)
        self.call_new = builtin_function(self._library, "new_definition", self._parameters)
        self._rows = builtin_function(self._library, "rows_definition", self._parameters)

    def called_at_once(self, cls):
        """See `called_at_once`."""
        return called_at_once(self._library, cls)

    def with_parameters(self, parameters):
        """A Kernel of the same library with other values of the parameters; unknown names are ignored."""
        other = copy(self)
        other._pack(parameters)
        other._wrap()
        return other

    def _pack(self, parameters):
        self.parameters = [np.array(parameters[name], dtype=np.float64) for name in self._names]
        self._parameters = np.concatenate([*map(np.ravel, self.parameters), [0.0]])

    def __call__(self, count, *inputs):
        """Outputs, a list of arrays (count, *shape), and whether all states were solved; those of a state
        that was not are NaN. inputs: (count, *shape) or (*shape)."""
        results = [new_array((count, *shape)) for shape in self.outputs.values()]
        good = self._in_parts(count, inputs, results)
        if good < 0:
            good = self._in_parts(count, self.fitting(self.inputs, count, inputs, np.float64), results)
        if good < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return results, bool(good)

    def quick(self, count, inputs, out=None):
        """The outputs; None when an array is not contiguous, of the type and of the right shape, or a state
        is not solved. out: arrays for them, not used where they lie over inputs."""
        results = usable(out, inputs) or [new_array((count, *shape)) for shape in self.outputs.values()]
        fit = _fit(count, inputs, self.inputs, [()]) and _fit(count, results, self.outputs)
        return results if fit and self._in_parts(count, inputs, results) > 0 else None

    def _in_parts(self, count, inputs, results):
        """By several threads, where that is worth it."""
        if count < BATCH:
            return self._rows(count, *inputs, *results)
        differ = [
            np.ndim(array) > len(shape) for array, shape in zip(inputs, self.inputs.values(), strict=True)
        ]

        def solve(start, stop):
            given = [a[start:stop] if many else a for a, many in zip(inputs, differ, strict=True)]
            return self._rows(stop - start, *given, *(array[start:stop] for array in results))

        return in_parts(count, threads_worth(count * self._operations), solve)

    def run(self, x, y):
        """Outputs y (count, outputs) of all inputs x (count, inputs), packed in the Program's order; both
        C-contiguous float64. Nothing is checked: what the Program alone takes."""
        self._entry(len(x), x.ctypes.data, y.ctypes.data)


def _fit(count, arrays, shapes, more=()):
    """True when there is an array of `count` rows for each of the shapes {name: shape}; more: [()] where one
    row for all of them does as well."""
    if len(arrays) != len(shapes):
        return False
    pairs = zip(arrays, shapes.values(), strict=True)
    return all(getattr(a, "shape", None) in [(*batch, *s) for batch in ((count,), *more)] for a, s in pairs)


def _entry(library):
    """program(count, x, y) of a library."""
    entry = library.program
    entry.argtypes, entry.restype = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p), None
    return entry


def _promising(program, options, together):
    """The names of the options that may be the fastest. Lanes that leave little to write down always are: for
    52 Programs of 26 robots they took 0.33 to 0.92 of the time of the next one."""
    lanes = together()
    if lanes is None:
        return [name for name in options if name != "side by side"]
    return ["side by side"] if lanes.length <= SHORTER * program.length else options


def _is_worth_it(program):
    """True of straight lines, neither too few for their time to count nor too many to compile often."""
    return isinstance(program, Program) and SHORT < program.length <= QUICK
