"""LaneProgram: stages, each a Program that runs on several lanes side by side; Staging writes one.

What is computed alike for many bodies, or columns of a matrix, is one short Program: a processor runs it on
whole vectors, where straight lines would be too long for its caches.

A Staging makes stages of functions of arrays. Between the functions arrays hold Values, which stand for
results that are not there yet, and floats. Only the functions compute with them; outside arrays are cut,
joined and reordered.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dynamics_node.symbolic.expression import Expression, Op, Table
from dynamics_node.symbolic.program import Program, ProgramError, program_of, require_health


@dataclass(frozen=True, eq=False)
class Stage:
    """A Program and what every lane reads: reads (inputs of the Program, lanes), numbers of values."""

    program: Program
    reads: np.ndarray

    @property
    def lanes(self):
        return self.reads.shape[1]

    @property
    def results(self):
        """Value numbers, within the Program, of all its outputs (n,)."""
        return np.concatenate([numbers.ravel() for numbers in self.program.outputs.values()])

    @property
    def size(self):
        """Values that it leaves."""
        return len(self.results) * self.lanes


@dataclass(frozen=True, eq=False)
class LaneProgram:
    """Inputs, outputs and limits as of a Program. Values 0, 1, ... in order: the scalars of the inputs, the
    constants, then what every stage leaves: of one result after the other all lanes."""

    inputs: dict[str, tuple[int, ...]]
    constants: np.ndarray
    stages: tuple[Stage, ...]
    outputs: dict[str, np.ndarray]
    limits: tuple[float, ...] = ()

    def __post_init__(self):
        require_health(self)
        count = self.first_result
        for stage in self.stages:
            if len(stage.reads) != stage.program.input_size or np.any(stage.reads >= count):
                raise ProgramError("a stage reads what is not there yet")
            count += stage.size
        if any(np.any(numbers >= count) for numbers in self.outputs.values()):
            raise ProgramError("an output is no value of the stages")

    @property
    def input_size(self):
        return sum(int(np.prod(shape)) for shape in self.inputs.values())

    @property
    def first_result(self):
        """Number of the first value that a stage leaves."""
        return self.input_size + len(self.constants)

    def op_count(self):
        """As of a Program, of all lanes."""
        total: Counter = Counter()
        for stage in self.stages:
            total.update({name: stage.lanes * n for name, n in stage.program.op_count().items()})
        return dict(total)

    @property
    def length(self):
        """Operations that are written down, of one lane each."""
        return sum(len(stage.program.ops) for stage in self.stages)

    def digest(self):
        """Hash of all that it says."""
        hashed = hashlib.sha256(repr((self.inputs, self.limits)).encode())
        hashed.update(np.ascontiguousarray(self.constants).tobytes())
        for stage in self.stages:
            hashed.update(f"{stage.program.digest()} {stage.reads.shape}".encode())
            hashed.update(np.ascontiguousarray(stage.reads).tobytes())
        for name, numbers in self.outputs.items():
            hashed.update(repr((name, numbers.shape)).encode() + np.ascontiguousarray(numbers).tobytes())
        return hashed.hexdigest()


_INPUTS = -1


class Value:
    """A scalar that is not there yet: its stage, and its number among all that this one leaves."""

    __slots__ = ("number", "stage")

    def __init__(self, stage, number):
        self.stage, self.number = stage, number


class Staging:
    """Writes a LaneProgram. arrays: {name: array of Values} of its inputs {name: shape}.

    Arguments and results of functions are arrays, or tuples of them, named ones too.
    """

    def __init__(self, inputs):
        self._inputs = dict(inputs)
        self._stages: list[tuple[Program, list[np.ndarray], int]] = []
        self.arrays, count = {}, 0
        for name, shape in self._inputs.items():
            size = int(np.prod(shape, dtype=int))
            values = [Value(_INPUTS, count + k) for k in range(size)]
            self.arrays[name] = _objects(values).reshape(shape)
            count += size
        self._input_size = count

    def alone(self, function, *arguments):
        """function(*arguments)"""
        return entries(self._stage(function, entries(arguments, None), 1), 0)

    def side_by_side(self, function, *each, shared=()):
        """function(*each, *shared) on every lane: first axis of the arrays of each, and of what comes back.
        Numbers in which all lanes agree are constants to the function."""
        lanes = len(next(_leaves(each)))
        everywhere = mapped(lambda a: np.broadcast_to(_objects(a), (lanes, *np.shape(a))), tuple(shared))
        return self._stage(function, each + everywhere, lanes)

    def _stage(self, function, arguments, lanes):
        table, rows = Table(), _Rows()
        found = function(*mapped(lambda array: rows.symbols(table, _objects(array)), arguments))
        arrays = [np.asarray(array, dtype=object) for array in _leaves(found)]
        computed = {x.number: x for array in arrays for x in array.flat if _is_computed(x)}
        program = program_of(table, {"x": (len(rows.reads),)}, {"y": _objects([*computed.values()])})
        program, used = _without_unused(program)
        stage, size = len(self._stages), len(computed) * lanes
        values = _objects([Value(stage, k) for k in range(size)]).reshape(-1, lanes)
        row = dict(zip(computed, values, strict=True))
        self._stages.append((program, [rows.reads[k] for k in used], lanes))

        def on_all_lanes(x):
            if not isinstance(x, Expression):
                return _objects([x] * lanes)
            return row[x.number] if x.number in row else rows.reads[x.number]

        return mapped(lambda array: _stacked(np.asarray(array, dtype=object), on_all_lanes, lanes), found)

    def finish(self, outputs, limits=()) -> LaneProgram:
        """The LaneProgram of outputs {name: array of Values and floats}."""
        read = [x for _, reads, _ in self._stages for row in reads for x in row]
        read += [x for array in outputs.values() for x in np.asarray(array, dtype=object).flat]
        constants = dict.fromkeys(float(x) for x in read if not isinstance(x, Value))
        number = {x: self._input_size + k for k, x in enumerate(constants)}
        sizes = [len(program.outputs["y"]) * lanes for program, _, lanes in self._stages]
        starts = [*accumulate(sizes, initial=self._input_size + len(constants)), 0]

        def numbered(array):
            found = [starts[x.stage] + x.number if isinstance(x, Value) else number[x] for x in array.flat]
            return np.array(found, dtype=np.int64).reshape(array.shape)

        stages = tuple(
            Stage(program, np.array([numbered(row) for row in reads], dtype=np.int64).reshape(-1, lanes))
            for program, reads, lanes in self._stages
        )
        wanted = {name: numbered(np.asarray(array, dtype=object)) for name, array in outputs.items()}
        return LaneProgram(self._inputs, np.array([*constants]), stages, wanted, tuple(map(float, limits)))


def mapped(function, arrays):
    """The same tuples of function(array)."""
    if not isinstance(arrays, tuple):
        return function(arrays)
    found = [mapped(function, part) for part in arrays]
    return tuple(found) if type(arrays) is tuple else type(arrays)(*found)


def entries(arrays, at):
    """The same tuples of entries `at` of all arrays."""
    return mapped(lambda array: _objects(array)[at], arrays)


def _leaves(arrays):
    if isinstance(arrays, tuple):
        for part in arrays:
            yield from _leaves(part)
    else:
        yield arrays


class _Rows:
    """What the inputs of a stage read, of every symbol one row over the lanes."""

    def __init__(self):
        self.reads: list[np.ndarray] = []
        self._known: dict[tuple, Expression] = {}

    def symbols(self, table, array):
        """Symbols and numbers (...) for an array (lanes, ...)."""
        found = np.empty(array.shape[1:], dtype=object)
        for place in np.ndindex(*found.shape):
            found[place] = self._symbol(table, array[(slice(None), *place)])
        return found

    def _symbol(self, table, row):
        if not isinstance(row[0], Value) and all(not isinstance(x, Value) and x == row[0] for x in row):
            return float(row[0])
        key = tuple((x.stage, x.number) if isinstance(x, Value) else float(x) for x in row)
        if key not in self._known:
            self._known[key] = table.input()
            self.reads.append(row)
        return self._known[key]


def _is_computed(x):
    return isinstance(x, Expression) and x.op != Op.INPUT


def _objects(values):
    """An array of objects."""
    if isinstance(values, np.ndarray):
        return values.astype(object)
    found = np.empty((), dtype=object) if np.ndim(values) == 0 else np.empty(len(values), dtype=object)
    found[...] = values
    return found


def _stacked(array, on_all_lanes, lanes):
    """(lanes, *shape) of an array of symbols."""
    found = np.empty((lanes, array.size), dtype=object)
    for k, x in enumerate(array.flat):
        found[:, k] = on_all_lanes(x)
    return found.reshape(lanes, *array.shape)


def _without_unused(program):
    """The Program without inputs that nothing needs, and the numbers of the others."""
    needed = np.zeros(program.first_operation + len(program.ops) + 1, dtype=bool)
    for numbers in (program.left, program.right, *program.outputs.values()):
        needed[numbers] = True
    used = np.flatnonzero(needed[: program.input_size])
    number = np.arange(len(needed)) - (program.input_size - len(used))
    number[used], number[-1] = np.arange(len(used)), -1
    return Program(
        {"x": (len(used),)},
        program.constants,
        program.ops,
        number[program.left],
        number[program.right],
        {name: number[numbers] for name, numbers in program.outputs.items()},
    ), used.tolist()
