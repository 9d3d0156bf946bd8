"""A function of arrays -> Program."""

import numpy as np

from dynamics_node.program.expression import Expression, Op, Table
from dynamics_node.program.program import Program


def trace(function, inputs, limits=()) -> Program:
    """The Program of function(**arrays) -> {name: array}.

    inputs: {name: shape}; limits: of the last result, `health`, if there is one: see Program. The function
    may use what arrays of objects can do: + - * /, sin, cos, matrix products, indexing. Operations that no
    output needs are left out. Raises TypeError where it asks for a value.
    """
    table = Table()
    arrays = {name: _input_array(table, shape) for name, shape in inputs.items()}
    results = {name: np.asarray(value, dtype=object) for name, value in function(**arrays).items()}
    return program_of(table, dict(inputs), results, limits)


def _input_array(table, shape):
    array = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        array[place] = table.input()
    return array


def program_of(table, inputs, results, limits=()) -> Program:
    """The Program that computes results {name: array of Expressions and numbers} of a Table whose inputs are
    {name: shape} in order."""
    wanted = {
        name: np.vectorize(lambda x: _number(table, x), otypes=[np.int64])(r) for name, r in results.items()
    }
    live = _live(table, wanted.values())
    inputs_first = [n for n, node in enumerate(table.nodes) if node[0] == Op.INPUT]
    constants = [n for n in live if table.nodes[n][0] == Op.CONSTANT]
    operations = [n for n in live if table.nodes[n][0] not in (Op.INPUT, Op.CONSTANT)]
    number = {old: new for new, old in enumerate([*inputs_first, *constants, *operations])}
    nodes = [table.nodes[n] for n in operations]
    return Program(
        inputs,
        np.array([table.nodes[n][1] for n in constants], dtype=float),
        np.array([node[0] for node in nodes], dtype=np.int64),
        np.array([number[node[1]] for node in nodes], dtype=np.int64),
        np.array([number[node[2]] if len(node) > 2 else -1 for node in nodes], dtype=np.int64),
        {name: np.vectorize(number.get, otypes=[np.int64])(w) for name, w in wanted.items()},
        tuple(map(float, limits)),
    )


def _number(table, value):
    return value.number if isinstance(value, Expression) else table.constant(value)


def _live(table, wanted):
    """Numbers of the nodes that an output depends on, in order."""
    leaves, needed = (Op.INPUT, Op.CONSTANT), bytearray(len(table.nodes))
    for numbers in wanted:
        for n in numbers.flat:
            needed[n] = True
    for n in range(len(table.nodes) - 1, -1, -1):
        op, *operands = table.nodes[n]
        if needed[n] and op not in leaves:
            for operand in operands:
                needed[operand] = True
    return [n for n, one in enumerate(needed) if one]
