"""What a Program means, straight-line or in stages: a few lines of NumPy, over a batch."""

from collections.abc import Callable

import numpy as np

from dynamics_node.program.expression import Expression, Op
from dynamics_node.program.staged import Staged


def _sine(angle, offset=0.0):
    """Of a sum, without adding numbers: a large angle would swallow the digits of the offset."""
    if offset == 0.0 or _is_symbol(angle):
        return np.sin(angle + offset)
    return np.sin(angle) * np.cos(offset) + np.cos(angle) * np.sin(offset)


def _cosine(angle, offset=0.0):
    if offset == 0.0 or _is_symbol(angle):
        return np.cos(angle + offset)
    return np.cos(angle) * np.cos(offset) - np.sin(angle) * np.sin(offset)


def _is_symbol(x):
    return isinstance(x, Expression) or np.asarray(x).dtype.hasobject


_MEANING: dict[int, Callable] = {  # an Op is not its number to a dictionary
    Op.ADD.value: np.add,
    Op.SUB.value: np.subtract,
    Op.MUL.value: np.multiply,
    Op.RECIPROCAL.value: lambda a: 1.0 / a,
    Op.NEG.value: np.negative,
    Op.SIN.value: _sine,
    Op.COS.value: _cosine,
}
CHUNK = 512  # states at a time: all values of a Program are kept


def interpret(program, **inputs):
    """{name: array (..., *shape)} of inputs {name: array (..., *shape)}; leading axes broadcast.

    What is singular comes out infinite or NaN, without a warning. Memory is bounded: CHUNK states at a time.
    Entries may be symbols (of one state): the Program is then part of the one that is traced.
    """
    return _interpreted(program, inputs, _MEANING)


def interpret_rounded(program, bits, **inputs):
    """As `interpret` of numbers, with every result rounded to so many binary digits."""
    split = 2.0 ** (53 - bits) + 1.0  # Veltkamp's

    def rounding(function):
        def rounded(*operands):
            value = function(*operands)
            large = split * value
            return large - (large - value)

        return rounded

    meaning = {op: rounding(function) for op, function in _MEANING.items()}
    return _interpreted(program, inputs, meaning)


def _interpreted(program, inputs, meaning):
    batch = _batch(program, inputs)
    count = int(np.prod(batch, dtype=int))
    rows = {
        name: np.broadcast_to(inputs[name], (*batch, *s)).reshape(count, *s)
        for name, s in program.inputs.items()
    }
    dtype = np.result_type(float, *(array.dtype for array in rows.values()))
    found = {name: np.empty((count, *numbers.shape), dtype) for name, numbers in program.outputs.items()}
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        with np.errstate(all="ignore"):
            columns = [x for array in rows.values() for x in _columns(array[part])]
            run = _stage_after_stage if isinstance(program, Staged) else all_values
            values = run(program, columns, meaning)
        for name, numbers in program.outputs.items():
            for place in np.ndindex(*numbers.shape):
                found[name][(part, *place)] = values[numbers[place]]
    return {name: array.reshape((*batch, *array.shape[1:])) for name, array in found.items()}


def all_values(program, inputs, meaning=_MEANING):
    """Every value in its order. inputs: one for each scalar input, arrays or symbols."""
    values = [*inputs, *program.constants.tolist()]
    for op, a, b in zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True):
        operands = (values[a],) if b < 0 else (values[a], values[b])
        values.append(meaning[op](*operands))
    return values


def _stage_after_stage(program, inputs, meaning):
    """Every value of a Staged in its order, (values, states): see `all_values`."""
    values = np.array(np.broadcast_arrays(*inputs, *program.constants.tolist()))
    for stage in program.stages:
        found = all_values(stage.program, list(values[stage.reads]), meaning)
        shape = (stage.lanes, *values.shape[1:])
        left = [np.broadcast_to(found[n], shape) for n in stage.results]
        values = np.concatenate([values, *left], dtype=values.dtype)
    return values


def _batch(program, inputs):
    leading = [np.shape(inputs[n])[: np.ndim(inputs[n]) - len(s)] for n, s in program.inputs.items()]
    return np.broadcast_shapes(*leading)


def _columns(rows):
    """The entries of an input, each over the states."""
    return rows.reshape(len(rows), -1).T if rows.size else []
