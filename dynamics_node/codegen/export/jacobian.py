"""First derivatives of an Entry, with its health."""

from dataclasses import replace

import numpy as np

from dynamics_node.codegen.export.entry import Argument, Entry
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.symbolic.program import HEALTH


def first_derivatives(entry: Entry, program: Program) -> tuple[Program, dict[tuple[str, str], str]]:
    """A Program of the derivatives of the Program of an Entry, which may have other names of outputs, and
    {(result, argument): its output}."""
    ins, outs = entry.inputs, entry.outputs
    if entry.derivative is None:
        first = jacobian(program, [a.name for a in outs], [a.name for a in ins])
        names = {(o.name, i.name): derivative_name(o.name, i.name) for o in outs for i in ins}
    else:
        first, names = entry.derivative, entry.jacobians
    return with_health(first, program), names


def derivative_entry(entry: Entry) -> tuple[Entry, dict[tuple[str, str], str]]:
    """The derivatives as an Entry of the same inputs, and {(result, argument): its output}, without
    zero ones. An output has the axes of the result, then those of the argument."""
    program, names = first_derivatives(entry, entry.program)
    shapes = {a.name: a.shape for a in (*entry.inputs, *entry.outputs)}
    numbers = {pair: without_zeros(program, program.outputs[name]) for pair, name in names.items()}
    pairs = [pair for pair, own in numbers.items() if (own >= 0).any()]
    called = {pair: f"d{k}" for k, pair in enumerate(pairs)}
    outputs = {called[pair]: program.outputs[names[pair]] for pair in pairs}
    outputs |= {HEALTH: program.outputs[HEALTH]} if program.limits else {}
    arguments = tuple(Argument(called[o, i], (*shapes[o], *shapes[i])) for o, i in pairs)
    program = replace(program, outputs=outputs)
    derived = replace(entry, program=program, outputs=arguments, derivative=None, jacobians={}, lanes=None)
    return derived, called


def without_zeros(program, numbers):
    """Value numbers, -1 for the constant zero."""
    zeros = program.input_size + np.flatnonzero(program.constants == 0)
    return np.where(np.isin(numbers, zeros), -1, numbers)


def with_health(derived: Program, program: Program) -> Program:
    """The Program with the health of another one that reads some of its inputs."""
    if not program.limits or derived.limits:
        return derived

    def both(**state):
        own = {name: state[name] for name in program.inputs}
        return {**interpret(derived, **state), HEALTH: interpret(program, **own)[HEALTH]}

    return trace(both, derived.inputs, program.limits)
