"""A Program in two, around a computation that no Program can express, such as a loop with conditions."""

from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic.program import Program

CROSSING = "crossing"


class Halves(NamedTuple):
    """first: the inputs but `late` -> the early outputs and CROSSING (k,), what the second needs. second:
    CROSSING and `late` -> the last outputs."""

    first: Program
    second: Program


def split(program: Program, late: str, outputs) -> Halves:
    """The Halves of a Program without limits: what depends on the input `late` comes second, and the named
    outputs do."""
    assert not program.limits
    count, begin = len(program.ops), program.first_operation
    starts = dict(zip(program.inputs, np.cumsum([0, *map(_size, program.inputs.values())]), strict=False))
    own = np.arange(starts[late], starts[late] + _size(program.inputs[late]))
    depends = np.zeros(begin + count, dtype=bool)
    depends[own] = True
    for k, (a, b) in enumerate(zip(program.left.tolist(), program.right.tolist(), strict=True), begin):
        depends[k] = depends[a] or (b >= 0 and depends[b])
    early = {name: n for name, n in program.outputs.items() if name not in outputs}
    last = {name: n for name, n in program.outputs.items() if name in outputs}
    assert not any(depends[n].any() for n in early.values())
    crossing = _crossing(program, depends, last)
    before = [k for k in range(begin) if k < program.input_size and not depends[k]]
    inputs = {name: shape for name, shape in program.inputs.items() if name != late}
    first = _part(program, inputs, before, ~depends, {**early, CROSSING: crossing})
    second = _part(
        program,
        {CROSSING: (len(crossing),), late: program.inputs[late]},
        [*crossing.tolist(), *own.tolist()],
        depends,
        last,
    )
    return Halves(first, second)


def _size(shape):
    return int(np.prod(shape, dtype=int))


def _crossing(program, depends, last):
    """Values that do not depend and that operations or outputs need which do; without constants."""
    begin = program.first_operation
    ops = np.flatnonzero(depends[begin:])
    used = [program.left[ops], program.right[ops][program.right[ops] >= 0]]
    used += [n.ravel() for n in last.values()]
    values = np.unique(np.concatenate(used))
    constant = (values >= program.input_size) & (values < begin)
    return values[~depends[values] & ~constant]


def _part(program, inputs, given, wanted, outputs):
    """The Program of the operations `wanted`, whose inputs are the values `given`, in order."""
    begin, constants = program.first_operation, np.arange(program.input_size, program.first_operation)
    ops = np.flatnonzero(wanted[begin:])
    order = np.concatenate([np.array(given, dtype=int), constants, begin + ops])
    number = np.full(begin + len(program.ops), -1)
    number[order] = np.arange(len(order))
    right = program.right[ops]
    return Program(
        inputs,
        program.constants,
        program.ops[ops],
        number[program.left[ops]],
        np.where(right < 0, -1, number[right]),
        {name: number[n] for name, n in outputs.items()},
    )
