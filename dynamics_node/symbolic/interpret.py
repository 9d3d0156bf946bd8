"""The interpreter: the meaning of a Program or a LaneProgram, in NumPy, over a batch of states."""

import math
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from dynamics_node.symbolic.expression import Expression, Op
from dynamics_node.symbolic.lane_program import LaneProgram
from dynamics_node.symbolic.program import Program, trace
from dynamics_node.symbolic.sines import DOUBLE


def _sine(angle, offset=0.0):
    """Sine of angle + offset without adding them: a large angle would swallow the digits of the offset."""
    if offset == 0.0 or _is_symbol(angle):
        return np.sin(angle + offset)
    return np.sin(angle) * np.cos(offset) + np.cos(angle) * np.sin(offset)


def _cosine(angle, offset=0.0):
    if offset == 0.0 or _is_symbol(angle):
        return np.cos(angle + offset)
    return np.cos(angle) * np.cos(offset) - np.sin(angle) * np.sin(offset)


def _is_symbol(x):
    return isinstance(x, Expression) or np.asarray(x).dtype.hasobject


_MEANING: dict[int, Callable] = {  # keyed by int: an Op hashes differently
    Op.ADD.value: np.add,
    Op.SUB.value: np.subtract,
    Op.MUL.value: np.multiply,
    Op.RECIPROCAL.value: lambda a: 1.0 / a,
    Op.NEG.value: np.negative,
    Op.SIN.value: _sine,
    Op.COS.value: _cosine,
}
_ADD, _SUB, _MUL = Op.ADD.value, Op.SUB.value, Op.MUL.value  # quicker to compare than members of an Enum
_RECIPROCAL, _NEG = Op.RECIPROCAL.value, Op.NEG.value
FEW = 4  # up to this many states, scalar code is faster
CHUNK = 512  # states at a time: all values of a Program are kept


def interpret(program, **inputs):
    """{name: array (..., *shape)} of inputs {name: array (..., *shape)}; leading axes broadcast.

    Numbers have double precision, or higher if the inputs do. Singular results are infinite or NaN, without a
    warning. Memory is bounded: CHUNK states at a time.
    Entries may be symbols (of one state): the Program then becomes part of the trace.
    """
    return _interpreted(program, inputs, _MEANING)


def interpret_portable(program, bits=53, **inputs):
    """`interpret` with the same digits, `bits` of them, on every machine: sums and products are portable,
    library sines are not. Use it for decisions about the structure of other Programs."""
    meaning = _MEANING | {Op.SIN.value: _portable_sine, Op.COS.value: partial(_portable_sine, quarters=1)}
    if bits < 53:
        split = 2.0 ** (53 - bits) + 1.0
        meaning = {op: partial(_rounded, function, split) for op, function in meaning.items()}
    return _interpreted(program, inputs, meaning)


def flattened(program: LaneProgram) -> Program:
    """A LaneProgram as one straight-line Program."""
    return trace(lambda **inputs: interpret(program, **inputs), program.inputs, program.limits)


def _rounded(function, split, *operands):
    """A result without its last digits, by Veltkamp's splitting."""
    value = function(*operands)
    large = split * value
    return large - (large - value)


def _portable_sine(angle, offset=0.0, quarters=0):
    """Sine of an angle plus quarter turns; accurate to some units in the last place up to 2^16 rad."""
    x, add = np.asarray(angle), np.asarray(offset)
    k = np.rint((x + add) * DOUBLE.quarters_per_radian)
    r = reduce(lambda rest, part: rest - k * part, DOUBLE.parts, x) + add
    z, n = r * r, k.astype(np.int64) + quarters
    sine, cosine = (
        r + r * z * _polynomial(DOUBLE.sine, z),
        1.0 - 0.5 * z + z * z * _polynomial(DOUBLE.cosine, z),
    )
    result = np.where(n & 1, cosine, sine)
    return np.where(n & 2, -result, result)


def _polynomial(coefficients, z):
    return reduce(lambda total, coefficient: total * z + coefficient, reversed(coefficients))


def _interpreted(program, inputs, meaning):
    batch = _batch(program, inputs)
    count = int(np.prod(batch, dtype=int))
    rows = {
        name: np.broadcast_to(_double(inputs[name]), (*batch, *s)).reshape(count, *s)
        for name, s in program.inputs.items()
    }
    dtype = np.result_type(float, *(array.dtype for array in rows.values()))
    outputs = {name: np.empty((count, *numbers.shape), dtype) for name, numbers in program.outputs.items()}
    if meaning is _MEANING and isinstance(program, Program) and _are_few(count, rows.values()):
        _state_after_state(program, rows, outputs)
    else:
        _in_chunks(program, rows, outputs, meaning)
    return {name: array.reshape((*batch, *array.shape[1:])) for name, array in outputs.items()}


def _are_few(count, arrays):
    """True for one state of symbols, and for so few of float64 that Python's numbers are faster."""
    kinds = {array.dtype.char for array in arrays}
    return kinds <= {"d", "O"} and count <= (1 if "O" in kinds else FEW)


def _state_after_state(program, rows, outputs):
    for state in range(len(next(iter(outputs.values()), ()))):
        scalars = [x for array in rows.values() for x in array[state : state + 1].ravel().tolist()]
        values = scalar_values(program, scalars)
        for name, numbers in program.outputs.items():
            entries = np.array([values[n] for n in numbers.ravel().tolist()], outputs[name].dtype)
            outputs[name][state, ...] = entries.reshape(numbers.shape)


def _in_chunks(program, rows, outputs, meaning):
    run = _stage_after_stage if isinstance(program, LaneProgram) else all_values
    for start in range(0, len(next(iter(outputs.values()), ())), CHUNK):
        part = slice(start, start + CHUNK)
        with np.errstate(all="ignore"):
            columns = [x for array in rows.values() for x in _columns(array[part])]
            values = run(program, columns, meaning)
        for name, numbers in program.outputs.items():
            for place in np.ndindex(*numbers.shape):
                outputs[name][(part, *place)] = values[numbers[place]]


def _double(array):
    """The array (of numbers or symbols) with at least double precision."""
    array = np.asarray(array)
    return array.astype(np.result_type(float, array.dtype), copy=False)


def all_values(program, inputs, meaning=_MEANING):
    """All values in order. inputs: one for each scalar input, arrays or symbols."""
    values = [*inputs, *program.constants.tolist()]
    append = values.append
    for op, a, b in zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True):
        append(meaning[op](values[a]) if b < 0 else meaning[op](values[a], values[b]))
    return values


def scalar_values(program, inputs):
    """`all_values` of one state. Inputs are floats or symbols, which Python adds and multiplies faster than
    NumPy does."""
    values = [x.item() if isinstance(x, np.generic) else x for x in (*inputs, *program.constants.tolist())]
    append = values.append
    with np.errstate(all="ignore"):
        for op, a, b in zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True):
            x = values[a]
            if op == _MUL:
                append(x * values[b])
            elif op == _ADD:
                append(x + values[b])
            elif op == _SUB:
                append(x - values[b])
            elif op == _NEG:
                append(-x)
            elif op == _RECIPROCAL:
                append(_inverse(x))
            else:
                value = _MEANING[op](x) if b < 0 else _MEANING[op](x, values[b])
                append(float(value) if isinstance(value, float) else value)
    return values


def _inverse(x):
    """1 / x; infinite for zero."""
    return math.copysign(math.inf, x) if isinstance(x, float) and x == 0 else 1.0 / x


def _stage_after_stage(program, inputs, meaning):
    """All values of a LaneProgram in order, (values, states): see `all_values`."""
    values = np.array(np.broadcast_arrays(*inputs, *program.constants.tolist()))
    for stage in program.stages:
        computed = all_values(stage.program, list(values[stage.reads]), meaning)
        shape = (stage.lanes, *values.shape[1:])
        left = [np.broadcast_to(computed[n], shape) for n in stage.results]
        values = np.concatenate([values, *left], dtype=values.dtype)
    return values


def _batch(program, inputs):
    leading = [np.shape(inputs[n])[: np.ndim(inputs[n]) - len(s)] for n, s in program.inputs.items()]
    return np.broadcast_shapes(*leading)


def _columns(rows):
    """The entries of an input, each as an array over the states."""
    return rows.reshape(len(rows), -1).T if rows.size else []
