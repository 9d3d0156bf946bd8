"""Exact derivatives of a Program: another Program.

Griewank and Walther, Evaluating Derivatives (2008): forward accumulation (sec. 3.1) propagates the
derivatives of every value by the inputs, reverse accumulation (sec. 3.2) those of the outputs by every value.
Zeros are never propagated. Both are exact; the cost of each depends on the shape of the Program.
"""

from collections.abc import Callable

import numpy as np

from dynamics_node.symbolic.expression import Op, Tape
from dynamics_node.symbolic.interpret import scalar_values
from dynamics_node.symbolic.program import Program, program_of


def jacobian(program: Program, outputs, inputs) -> Program:
    """The Jacobian Program, with the inputs of the given one, by the cheaper of forward and reverse
    accumulation.

    Its outputs are `d{output}_d{input}`, (*output shape, *input shape), for every pair of the given names.
    Raises KeyError for a name that the Program does not have.
    """
    derivatives = [_accumulated(program, list(outputs), list(inputs), rows) for rows in (_forward, _reverse)]
    return min(derivatives, key=lambda derivative: len(derivative.ops))


def gradient(program: Program, output, inputs) -> Program:
    """The gradient of a scalar output, by reverse accumulation: it costs a few times what the Program does,
    however many inputs there are."""
    return _accumulated(program, [output], list(inputs), _reverse)


def pushforward(program: Program, outputs, inputs) -> Program:
    """The derivative along a direction, by forward accumulation. Inputs: those of the given Program, then
    `fwd_{input}`, the direction; outputs: `fwd_{output}`."""
    table, symbols, places = _symbols(program)
    directions = {name: _symbolic(table, places[name].shape) for name in inputs}
    tangents = {n: x for name in inputs for n, x in _pairs(places[name], directions[name])}
    for n, partials in _all_partials(program, scalar_values(program, symbols)):
        for operand, partial in partials:
            if operand in tangents:
                _add(tangents, n, tangents[operand] * partial)
    results = {f"fwd_{name}": _entries(tangents, program.outputs[name]) for name in outputs}
    return program_of(table, _and(program, "fwd", directions), results)


def pullback(program: Program, outputs, inputs) -> Program:
    """The gradient of a weighted sum of outputs, by reverse accumulation. Inputs: those of the given Program,
    then `adj_{output}`, the weights; outputs: `adj_{input}`."""
    table, symbols, places = _symbols(program)
    weights = {name: _symbolic(table, program.outputs[name].shape) for name in outputs}
    adjoints: dict = {}
    for name in outputs:
        for n, weight in _pairs(program.outputs[name], weights[name]):
            _add(adjoints, n, weight)
    for n, partials in list(_all_partials(program, scalar_values(program, symbols)))[::-1]:
        if n in adjoints:
            for operand, partial in partials:
                _add(adjoints, operand, adjoints[n] * partial)
    results = {f"adj_{name}": _entries(adjoints, places[name]) for name in inputs}
    return program_of(table, _and(program, "adj", weights), results)


def derivative_name(output, of):
    """Name of an output of `jacobian`."""
    return f"d{output}_d{of}"


def _accumulated(program, outputs, inputs, rows):
    table, symbols, places = _symbols(program)
    values = scalar_values(program, symbols)
    wanted = [int(n) for name in outputs for n in program.outputs[name].flat]
    of = [int(n) for name in inputs for n in places[name].flat]
    J = np.array(rows(program, values, wanted, of), dtype=object).reshape(len(wanted), len(of))
    results, row = {}, 0
    for output in outputs:
        numbers = program.outputs[output]
        column = 0
        for name in inputs:
            block = J[row : row + numbers.size, column : column + places[name].size]
            results[derivative_name(output, name)] = block.reshape((*numbers.shape, *places[name].shape))
            column += places[name].size
        row += numbers.size
    return program_of(table, dict(program.inputs), results)


def _symbols(program):
    """A Tape, the symbols of the inputs, and `_input_places`."""
    table = Tape()
    return table, [table.input() for _ in range(program.input_size)], _input_places(program)


def _symbolic(table, shape):
    array = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        array[place] = table.input()
    return array


def _pairs(numbers, values):
    """(value number, value) of every entry."""
    return zip(numbers.ravel().tolist(), values.ravel().tolist(), strict=True)


def _entries(values, numbers):
    """{value number: value} as an array; zero where there is none."""
    entries = [values.get(n, 0.0) for n in numbers.ravel().tolist()]
    return np.array(entries, dtype=object).reshape(numbers.shape)


def _and(program, prefix, more):
    """{name: shape} of the inputs of a Program and more of them."""
    return program.inputs | {f"{prefix}_{name}": array.shape for name, array in more.items()}


def _input_places(program):
    """{input: array of the value numbers of its entries}"""
    places, start = {}, 0
    for name, shape in program.inputs.items():
        size = int(np.prod(shape, dtype=int))
        places[name] = np.arange(start, start + size).reshape(shape)
        start += size
    return places


def _forward(program, values, wanted, of):
    """Rows of the Jacobian for every value: {input: derivative}, without zeros."""
    tangents = {n: {n: 1.0} for n in of}
    for n, partials in _all_partials(program, values):
        row: dict = {}
        for operand, partial in partials:
            for direction, tangent in tangents.get(operand, {}).items():
                _add(row, direction, tangent * partial)
        if row:
            tangents[n] = row
    return [[tangents.get(n, {}).get(direction, 0.0) for direction in of] for n in wanted]


def _reverse(program, values, wanted, of):
    """Rows of the Jacobian for every output: {value: derivative}, without zeros."""
    backwards = list(_all_partials(program, values))[::-1]
    rows = []
    for output in wanted:
        adjoints: dict = {output: 1.0}
        for n, partials in backwards:
            if n in adjoints:
                for operand, partial in partials:
                    _add(adjoints, operand, adjoints[n] * partial)
        rows.append([adjoints.get(n, 0.0) for n in of])
    return rows


def _add(sums, key, term):
    if not (isinstance(term, float) and term == 0):
        sums[key] = sums[key] + term if key in sums else term


def _all_partials(program, values):
    """(value number, its partial derivatives ((operand, derivative), ...)) of every operation."""
    columns = (program.ops.tolist(), program.left.tolist(), program.right.tolist())
    for n, (op, a, b) in enumerate(zip(*columns, strict=True), start=program.first_operation):
        yield n, _PARTIALS[op](a, b, values[a], values[b], values[n])


def _turned(a, b, x, y, derivative):
    """Partial derivatives of a sine or cosine; `derivative` is a function of the angle."""
    return ((a, derivative(x if b < 0 else x + y)),)


_PARTIALS: dict[int, Callable] = {  # of operands a, b with values x, y
    Op.ADD.value: lambda a, b, x, y, result: ((a, 1.0), (b, 1.0)),
    Op.SUB.value: lambda a, b, x, y, result: ((a, 1.0), (b, -1.0)),
    Op.MUL.value: lambda a, b, x, y, result: ((a, y), (b, x)),
    Op.RECIPROCAL.value: lambda a, b, x, y, result: ((a, -(result * result)),),
    Op.NEG.value: lambda a, b, x, y, result: ((a, -1.0),),
    Op.SIN.value: lambda a, b, x, y, result: _turned(a, b, x, y, np.cos),
    Op.COS.value: lambda a, b, x, y, result: _turned(a, b, x, y, lambda angle: -np.sin(angle)),
}
