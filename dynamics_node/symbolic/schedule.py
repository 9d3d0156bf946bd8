"""The same operations in another order, with fewer live values.

A trace computes a quantity of all bodies, then the next one. In a robot with limbs, values of one limb then
wait until all others are done. Group by group, a processor keeps them in registers.
"""

from collections.abc import Sequence

import numpy as np

from dynamics_node.symbolic.program import Program

ENTERING, LEAVING = 0, 1


def group_after_group(program: Program, groups: dict[str, np.ndarray], above: Sequence[int]) -> Program:
    """The operations in the order of a walk over a tree of groups.

    An operation that depends on one group and its ancestors is done on entering the group. One that depends
    on several branches is done on leaving the group that they share.

    groups: {name of an input: group number of every entry, -1 for none}; above: the parent of every group, -1
    for none; parents come first.
    """
    paths = _paths(above)
    walk = _walk(above)
    depends = _dependences(program, groups)
    place = np.zeros(program.first_operation + len(program.ops), dtype=np.int64)
    columns = zip(program.left.tolist(), program.right.tolist(), strict=True)
    known: dict[frozenset, int] = {}
    for n, (a, b) in enumerate(columns, start=program.first_operation):
        needed = depends[n] = depends[a] | depends[b] if b >= 0 else depends[a]
        if needed not in known:
            known[needed] = walk[_stop(needed, paths)]
        place[n] = max(known[needed], place[a], place[b] if b >= 0 else 0)
    return in_order(program, np.argsort(place[program.first_operation :], kind="stable"))


def depth_first(program: Program) -> Program:
    """The operations in the order in which the outputs need them; the operand with the longer chain comes
    first, so that few values are alive meanwhile (in the spirit of Sethi and Ullman 1970)."""
    first = program.first_operation
    left, right = program.left.tolist(), program.right.tolist()
    depth = program.depths()
    order: list[int] = []
    placed = [False] * len(left)
    for root in (n for numbers in program.outputs.values() for n in numbers.ravel().tolist()):
        waiting = [root]
        while waiting:
            n = waiting[-1] - first
            if n < 0 or placed[n]:
                waiting.pop()
                continue
            missing = [m for m in {left[n], right[n]} if m >= first and not placed[m - first]]
            if missing:
                waiting.append(max(missing, key=lambda m: (depth[m], -m)))
            else:
                placed[n] = True
                order.append(n)
    unused = [n for n, done in enumerate(placed) if not done]
    return in_order(program, np.array([*order, *unused], dtype=np.int64))


def in_order(program: Program, order: np.ndarray) -> Program:
    """The Program with its operations (numbers from 0) in another order, operands before their use."""
    first = program.first_operation
    number = np.arange(first + len(order) + 1)
    number[first + order] = first + np.arange(len(order))
    number[-1] = -1  # for a missing operand
    return Program(
        program.inputs,
        program.constants,
        program.ops[order],
        number[program.left[order]],
        number[program.right[order]],
        {name: number[numbers] for name, numbers in program.outputs.items()},
        program.limits,
    )


def most_alive(program: Program) -> int:
    """The largest number of results that are alive at the same time."""
    first, count = program.first_operation, len(program.ops)
    last = np.zeros(first + count, dtype=np.int64)
    for operands in (program.left, program.right):
        used = operands >= 0
        np.maximum.at(last, operands[used], np.flatnonzero(used))
    for numbers in program.outputs.values():
        last[numbers.ravel()] = count  # alive to the end
    born, dies = np.arange(count), last[first:]
    change = np.bincount(born, minlength=count + 1) - np.bincount(dies, minlength=count + 1)
    return int(np.cumsum(change).max(initial=0))


def _dependences(program, groups):
    """The groups that every input depends on, and empty sets for the operations."""
    dependences: list[frozenset] = []
    for name, shape in program.inputs.items():
        size = int(np.prod(shape, dtype=int))
        numbers = np.broadcast_to(groups.get(name, -1), shape).ravel().tolist() if size else []
        dependences += [frozenset() if number < 0 else frozenset({number}) for number in numbers]
    return dependences + [frozenset()] * (len(program.constants) + len(program.ops))


def _paths(above):
    """For every group, itself and its ancestors, nearest first."""
    paths: list[tuple[int, ...]] = []
    for group, parent in enumerate(above):
        paths.append((group, *(paths[parent] if parent >= 0 else ())))
    return paths


def _walk(above):
    """{(group, ENTERING or LEAVING): step of the walk}"""
    when: dict[tuple[int, int], int] = {}

    def visit(group):
        when[group, ENTERING] = len(when) + 1
        for other, parent in enumerate(above):
            if parent == group:
                visit(other)
        when[group, LEAVING] = len(when) + 1

    for group, parent in enumerate(above):
        if parent < 0:
            visit(group)
    return when | {(-1, ENTERING): 0, (-1, LEAVING): len(when) + 1}


def _stop(groups, paths):
    """The step of the walk at which all of some groups are known: entering the last group of a branch, or
    leaving the group that several branches share."""
    if not groups:
        return -1, ENTERING
    for group in groups:
        if groups <= set(paths[group]):
            return group, ENTERING
    shared = set.intersection(*(set(paths[group]) for group in groups))
    return max(shared, key=lambda group: len(paths[group]), default=-1), LEAVING
