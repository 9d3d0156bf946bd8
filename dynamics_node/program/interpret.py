"""What a Program means: a few lines of NumPy, over a batch."""

from collections.abc import Callable

import numpy as np

from dynamics_node.program.expression import Op

_MEANING: dict[Op, Callable] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.RECIPROCAL: lambda a: 1.0 / a,
    Op.NEG: np.negative,
    Op.SIN: np.sin,
    Op.COS: np.cos,
}


def interpret(program, **inputs):
    """{name: array (..., *shape)} of inputs {name: array (..., *shape)} with the same leading axes."""
    batch = _batch(program, inputs)
    values = [column for name, shape in program.inputs.items() for column in _scalars(inputs[name], shape)]
    values += list(program.constants)
    for op, a, b in zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True):
        operands = (values[a],) if b < 0 else (values[a], values[b])
        values.append(_MEANING[Op(op)](*operands))
    return {name: _gathered(values, numbers, batch) for name, numbers in program.outputs.items()}


def _batch(program, inputs):
    leading = [np.shape(inputs[n])[: np.ndim(inputs[n]) - len(s)] for n, s in program.inputs.items()]
    return np.broadcast_shapes(*leading)


def _scalars(array, shape):
    """The entries of an input, each over the batch."""
    array = np.asarray(array, dtype=float)
    return [array[(..., *place)] for place in np.ndindex(*shape)]


def _gathered(values, numbers, batch):
    out = np.empty((*batch, *numbers.shape))
    for place in np.ndindex(*numbers.shape):
        out[(..., *place)] = values[numbers[place]]
    return out
