"""LaneProgram: stages, each a Program that runs on several lanes side by side; Staging writes one.

Equal computations for many bodies, or for columns of a matrix, become one short Program: a processor runs it
on whole vectors. Straight-line code would exceed its caches.

A Staging turns functions of arrays into stages. Between functions, arrays hold floats and Values, which stand
for results not yet computed. Only the functions compute; outside they are only sliced, joined and reordered.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dynamics_node.errors import ProgramError
from dynamics_node.symbolic.expression import Expression, Op, Tape
from dynamics_node.symbolic.program import Program, program_of, require_health


@dataclass(frozen=True, eq=False)
class Stage:
    """A Program and its operands: reads (inputs of the Program, lanes), numbers of values."""

    program: Program
    reads: np.ndarray

    @property
    def lanes(self):
        return self.reads.shape[1]

    @property
    def results(self):
        """Value numbers (n,) of all outputs, within the Program."""
        return np.concatenate([numbers.ravel() for numbers in self.program.outputs.values()])

    @property
    def size(self):
        """Number of its results."""
        return len(self.results) * self.lanes


@dataclass(frozen=True, eq=False)
class LaneProgram:
    """Inputs, outputs and limits as in a Program. Values in order: the scalars of the inputs, the constants,
    then the results of every stage: result by result, all lanes."""

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
                raise ProgramError("a stage reads a value that is not computed yet")
            count += stage.size
        if any(np.any(numbers >= count) for numbers in self.outputs.values()):
            raise ProgramError("an output is no value of the stages")

    @property
    def input_size(self):
        return sum(int(np.prod(shape)) for shape in self.inputs.values())

    @property
    def first_result(self):
        """Number of the first result of a stage."""
        return self.input_size + len(self.constants)

    def op_count(self):
        """As in a Program, over all lanes."""
        total: Counter = Counter()
        for stage in self.stages:
            total.update({name: stage.lanes * n for name, n in stage.program.op_count().items()})
        return dict(total)

    @property
    def length(self):
        """Operations in the text, one lane each."""
        return sum(len(stage.program.ops) for stage in self.stages)

    def digest(self):
        """Hash of the complete program."""
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
    """A scalar not yet computed: its stage, and its number among the results of that stage."""

    __slots__ = ("number", "stage")

    def __init__(self, stage, number):
        self.stage, self.number = stage, number


class Staging:
    """Writes a LaneProgram. arrays: {name: array of Values} of its inputs {name: shape}.

    Arguments and results of functions are arrays, or tuples (also named tuples) of arrays.
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
        """function(*each, *shared) on every lane: the first axis of `each` and of the results.
        Numbers equal on all lanes are constants to the function."""
        lanes = len(next(_leaves(each)))
        everywhere = mapped(lambda a: np.broadcast_to(_objects(a), (lanes, *np.shape(a))), tuple(shared))
        return self._stage(function, each + everywhere, lanes)

    def _stage(self, function, arguments, lanes):
        table, rows = Tape(), _Operands()
        results = function(*mapped(lambda array: rows.symbols(table, _objects(array)), arguments))
        arrays = [np.asarray(array, dtype=object) for array in _leaves(results)]
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

        return mapped(lambda array: _stacked(np.asarray(array, dtype=object), on_all_lanes, lanes), results)

    def finish(self, outputs, limits=()) -> LaneProgram:
        """The LaneProgram of outputs {name: array of Values and floats}."""
        read = [x for _, reads, _ in self._stages for row in reads for x in row]
        read += [x for array in outputs.values() for x in np.asarray(array, dtype=object).flat]
        constants = dict.fromkeys(float(x) for x in read if not isinstance(x, Value))
        number = {x: self._input_size + k for k, x in enumerate(constants)}
        sizes = [len(program.outputs["y"]) * lanes for program, _, lanes in self._stages]
        starts = [*accumulate(sizes, initial=self._input_size + len(constants)), 0]

        def numbered(array):
            numbers = [starts[x.stage] + x.number if isinstance(x, Value) else number[x] for x in array.flat]
            return np.array(numbers, dtype=np.int64).reshape(array.shape)

        stages = tuple(
            Stage(program, np.array([numbered(row) for row in reads], dtype=np.int64).reshape(-1, lanes))
            for program, reads, lanes in self._stages
        )
        wanted = {name: numbered(np.asarray(array, dtype=object)) for name, array in outputs.items()}
        return LaneProgram(self._inputs, np.array([*constants]), stages, wanted, tuple(map(float, limits)))


def mapped(function, arrays):
    """The nested tuples with function(array) in place of each array."""
    if not isinstance(arrays, tuple):
        return function(arrays)
    parts = [mapped(function, part) for part in arrays]
    return tuple(parts) if type(arrays) is tuple else type(arrays)(*parts)


def entries(arrays, at):
    """The nested tuples with array[at] in place of each array."""
    return mapped(lambda array: _objects(array)[at], arrays)


def _leaves(arrays):
    if isinstance(arrays, tuple):
        for part in arrays:
            yield from _leaves(part)
    else:
        yield arrays


class _Operands:
    """The operands of a stage: for every symbol a row over the lanes."""

    def __init__(self):
        self.reads: list[np.ndarray] = []
        self._known: dict[tuple, Expression] = {}

    def symbols(self, table, array):
        """Symbols and numbers (...) for an array (lanes, ...)."""
        symbols = np.empty(array.shape[1:], dtype=object)
        for place in np.ndindex(*symbols.shape):
            symbols[place] = self._symbol(table, array[(slice(None), *place)])
        return symbols

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
    """The values as an array of objects."""
    if isinstance(values, np.ndarray):
        return values.astype(object)
    objects = np.empty((), dtype=object) if np.ndim(values) == 0 else np.empty(len(values), dtype=object)
    objects[...] = values
    return objects


def _stacked(array, on_all_lanes, lanes):
    """(lanes, *shape) of an array of symbols."""
    columns = np.empty((lanes, array.size), dtype=object)
    for k, x in enumerate(array.flat):
        columns[:, k] = on_all_lanes(x)
    return columns.reshape(lanes, *array.shape)


def _without_unused(program):
    """The Program without unused inputs, and the numbers of the others."""
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
