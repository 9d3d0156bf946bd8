"""A Program in parts, around computations that no Program can express, such as loops with conditions.

All parts share a memory of numbers: the inputs of the Program in order, then what every part writes. The
first part that needs a value computes it, so a part may be left out if none of its results is used.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic.program import Program


class ProgramPart(NamedTuple):
    """program: x (n,) -> y (m,); reads (n,): places of x in the memory; writes: place where y begins."""

    program: Program
    reads: np.ndarray
    writes: int

    @property
    def end(self):
        return self.writes + self.program.outputs["y"].size


class SplitProgram(NamedTuple):
    """places: {input or output of the Program: slice of the memory}; size: numbers in the memory."""

    parts: tuple[ProgramPart, ...]
    places: dict[str, slice]
    size: int


def split(program: Program, late, outputs) -> SplitProgram:
    """The SplitProgram of a Program without limits. late: names of inputs that are there before every part
    but the first; outputs: names of the outputs of every part."""
    assert not program.limits
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
    ends = np.cumsum([0, *sizes.values()]).tolist()
    places = {name: slice(*ends[k : k + 2]) for k, name in enumerate(sizes)}
    first = _parts_of_values(program, outputs)
    for k, names in enumerate(late, 1):
        assert all((first[places[name]] >= k).all() for name in names)
    parts, at, size = [], np.full(len(first), -1), program.input_size
    at[:size] = np.arange(size)
    for k, names in enumerate(outputs):
        part = _part(program, first, k, names, at, size)
        for name in names:
            numbers = program.outputs[name].ravel()
            places[name] = slice(size, size + numbers.size)
            size += numbers.size
        parts.append(part)
        size = part.end
    return SplitProgram(tuple(parts), places, size)


def _parts_of_values(program, outputs):
    """The first part that needs each value; len(outputs) for none."""
    begin = program.first_operation
    first = np.full(begin + len(program.ops), len(outputs))
    for k, names in reversed(list(enumerate(outputs))):
        for name in names:
            first[program.outputs[name]] = k
    operands = list(zip(program.left.tolist(), program.right.tolist(), strict=True))
    for n in range(len(operands) - 1, -1, -1):
        for operand in operands[n]:
            if operand >= 0:
                first[operand] = min(first[operand], first[begin + n])
    return first


def _part(program, first, k, names, at, start):
    """Part k, whose results begin at `start`; at: places of values in the memory, which it completes."""
    begin, constants = program.first_operation, np.arange(program.input_size, program.first_operation)
    ops = np.flatnonzero(first[begin:] == k)
    results = np.concatenate([np.zeros(0, dtype=int), *(program.outputs[name].ravel() for name in names)])
    used = np.concatenate([program.left[ops], program.right[ops], results])
    used = np.unique(used[used >= 0])
    reads = used[(first[used] < k) | (used < program.input_size)]
    reads = reads[(reads < program.input_size) | (reads >= begin)]
    later = np.flatnonzero(first[begin:] > k)
    needed = np.concatenate([program.left[later], program.right[later]])
    needed = np.unique(np.concatenate([needed, *(n.ravel() for n in program.outputs.values())]))
    crossing = np.setdiff1d(needed[(needed >= begin)], results)
    crossing = crossing[first[crossing] == k]
    order = np.concatenate([reads, constants, begin + ops])
    number = np.full(begin + len(program.ops), -1)
    number[order] = np.arange(len(order))
    right = program.right[ops]
    part = Program(
        {"x": (len(reads),)},
        program.constants,
        program.ops[ops],
        number[program.left[ops]],
        np.where(right < 0, -1, number[right]),
        {"y": number[np.concatenate([results, crossing])]},
    )
    places = at[reads]
    written = np.concatenate([results, crossing])
    at[written] = np.where(at[written] < 0, start + np.arange(len(written)), at[written])
    return ProgramPart(part, places, start)
