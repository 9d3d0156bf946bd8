"""A function of arrays -> Program."""

import numpy as np

from dynamics_node.symbolic.expression import Expression, Op, Table
from dynamics_node.symbolic.program import Program

_INPUT, _CONSTANT = _LEAVES = (Op.INPUT.value, Op.CONSTANT.value)


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
    {name: shape} in order. The Table is cleared."""
    wanted = {name: [_node(table, x) for x in array.flat] for name, array in results.items()}
    live = _live(table, wanted.values())
    inputs_first = [node for node in table.nodes if node.op == _INPUT]
    constants = [node for node in live if node.op == _CONSTANT]
    operations = [node for node in live if node.op not in _LEAVES]
    number = [-1] * len(table.nodes)
    for new, node in enumerate([*inputs_first, *constants, *operations]):
        number[node.number] = new
    program = Program(
        inputs,
        np.array([node.left for node in constants], dtype=float),
        np.array([node.op for node in operations], dtype=np.int64),
        np.array([number[node.left.number] for node in operations], dtype=np.int64),
        np.array(
            [-1 if node.right is None else number[node.right.number] for node in operations], dtype=np.int64
        ),
        {
            name: np.array([number[node.number] for node in wanted[name]], dtype=np.int64).reshape(r.shape)
            for name, r in results.items()
        },
        tuple(map(float, limits)),
    )
    table.clear()
    return program


def _node(table, value):
    return value if isinstance(value, Expression) else table.constant(value)


def _live(table, wanted):
    """The nodes that an output depends on, in order."""
    needed = bytearray(len(table.nodes))
    for nodes in wanted:
        for node in nodes:
            needed[node.number] = True
    for node in reversed(table.nodes):
        if needed[node.number] and node.op not in _LEAVES:
            needed[node.left.number] = True
            if node.right is not None:
                needed[node.right.number] = True
    return [node for node in table.nodes if needed[node.number]]
