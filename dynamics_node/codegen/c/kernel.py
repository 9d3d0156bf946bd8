"""A Program one can call with a state, or with the states of a small batch."""

import ctypes
from copy import copy
from functools import partial

import numpy as np

from dynamics_node.codegen.c.compiler import NOT_FUSED, SCHEDULED
from dynamics_node.codegen.c.loaded import Loaded, builtin_function, trust_arrays
from dynamics_node.codegen.c.render import BATCH, render, renderer
from dynamics_node.codegen.c.shared_library import open_library
from dynamics_node.codegen.c.threads import in_parts, threads_worth
from dynamics_node.codegen.c.tuning import Way, compile_fastest
from dynamics_node.codegen.errors import CompileError
from dynamics_node.codegen.results import returned, taken, usable
from dynamics_node.symbolic import Program, Rolled, packed

WIDE = 15  # operations on every step of the longest chain
SHORT, QUICK = 100, 20_000  # operations that take no time to speak of, and that are compiled in a second
TRIED = 100  # states of a trial
_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
MOST_OPERATIONS = 500_000  # in two or three minutes


class ScanArguments(ctypes.Structure):
    """Of `scan`, see scan.c: one pointer is passed sooner than nine numbers."""

    _fields_ = (
        *((name, _LONG) for name in ("count", "carry", "row_stride", "out_stride", "watched")),
        *((name, _POINTER) for name in ("rows", "carried", "out", "limits")),
    )


class Kernel(Loaded):
    """kernel.solve(*inputs, *outputs) for one state and kernel.few(*inputs) for less than BATCH, see call.c;
    kernel(count, *inputs) for any number of states and any arrays.

    parameters: {name: array} of the Program's last inputs, which a call does not take. Nor does it give
    health, the last output of a Program with limits: it declines beyond them. other: the same operations in
    another order; alike: inputs that go together on lanes side by side, see `packed`; the fastest one runs.
    tuned: so it does of other ways to compile.
    """

    PER_PROCESS = ("_entry", "_library", "_rows", "few", "scan", "solve")

    def __init__(self, program, parameters=None, quaternions=(), other=None, alike=(), tuned=True):
        self._names, self._quaternions = tuple(parameters or ()), tuple(quaternions)
        self._other, self._alike, self._tuned = other, tuple(alike), tuned
        self._operations = sum(program.op_count().values())  # counting takes milliseconds
        self.inputs, self.outputs = taken(program, self._names), returned(program)
        self._pack(parameters or {})
        super().__init__(program)

    def _compile(self):
        length = _length(self.program)
        if length > MOST_OPERATIONS:
            raise CompileError(f"{length} operations are too many to compile")
        ways = {"fused": self._way(self.program)}
        if self._tuned and _is_worth_it(self.program):
            ways["scheduled"] = self._way(self.program, SCHEDULED)
        if self._tuned and _may_wait(self.program):
            ways["separate"] = self._way(self.program, NOT_FUSED)
        if self._other is not None:
            ways["reordered"] = self._way(self._other, SCHEDULED)
        if self._alike and self._tuned and _is_worth_it(self.program):
            ways["side by side"] = self._side_by_side()
        return compile_fastest(ways, self._trial)

    def _way(self, program, flags=()):
        how = (self._names, self._quaternions)
        return Way(f"{renderer()} {program.digest()} {how}", partial(render, program, *how), flags)

    def _side_by_side(self):
        """A way that looks for what goes together when it is compiled; where nothing does, as scheduled."""
        how = (self._names, self._quaternions)
        identity = f"{renderer()} {self.program.digest()} {how} {self._alike}"
        return Way(
            identity, lambda: render(packed(self.program, self._alike) or self.program, *how), SCHEDULED
        )

    def _trial(self, key):
        """A function that runs a library over some states."""
        run = _entry(open_library(key))
        x = np.random.default_rng(0).uniform(-1.0, 1.0, (TRIED, sum(self._sizes)))
        y = np.empty((TRIED, self._outputs))
        return lambda: run(TRIED, x.ctypes.data, y.ctypes.data)

    def _open(self, library):
        self._library, self._entry = library, _entry(library)
        self.scan = library.scan
        self.scan.argtypes, self.scan.restype = (_POINTER,), ctypes.c_int
        trust_arrays(library, np.float64)
        library.allocate_with.argtypes = (ctypes.py_object,)
        library.allocate_with(np.empty)
        self._wrap()

    def _wrap(self):
        self.solve = builtin_function(self._library, "solve_definition", self._parameters)
        self.few = builtin_function(self._library, "few_definition", self._parameters)
        self._rows = builtin_function(self._library, "rows_definition", self._parameters)

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
        results = [np.empty((count, *shape)) for shape in self.outputs.values()]
        good = self._in_parts(count, inputs, results)
        if good < 0:
            good = self._in_parts(count, self.fitting(self.inputs, count, inputs, np.float64), results)
        if good < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return results, bool(good)

    def quick(self, count, inputs, out=None):
        """The outputs; None when an array is not contiguous, of the type and of the right shape, or a state
        is not solved. out: arrays for them, not used where they lie over inputs."""
        results = usable(out, inputs) or [np.empty((count, *shape)) for shape in self.outputs.values()]
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
            given = [a[start:stop] if own else a for a, own in zip(inputs, differ, strict=True)]
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


def _length(program):
    """Operations of the text, what is rolled being short."""
    return 0 if isinstance(program, Rolled) else program.length


def _entry(library):
    """program(count, x, y) of a library."""
    entry = library.program
    entry.argtypes, entry.restype = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p), None
    return entry


def _may_wait(program):
    """True where most operations wait for the one before. A fused multiply-add saves an operation but takes
    longer than an addition, and such a sum waits for it: which one wins depends on the Program and on the
    processor (on one of them a UR5 is 12 % faster fused, a Panda slower). Where many operations run side by
    side fused ones always win (a quadruped by 15 %)."""
    return _is_worth_it(program) and program.length <= WIDE * program.depth()


def _is_worth_it(program):
    """True of straight lines, neither too few for their time to count nor too many to compile often."""
    return isinstance(program, Program) and SHORT < program.length <= QUICK
