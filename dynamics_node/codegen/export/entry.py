"""What is exported: a Program with the names, texts and facts that stand beside it; its derivatives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dynamics_node.symbolic import LaneProgram, Program, derivative_name, interpret, jacobian, trace
from dynamics_node.symbolic.program import HEALTH

DTYPES: dict[str, np.dtype] = {"float64": np.dtype(np.float64), "float32": np.dtype(np.float32)}
REAL = {"float64": "double", "float32": "float"}


@dataclass(frozen=True)
class Argument:
    """An input or a result: an identifier, its shape, and lines of text about it."""

    name: str
    shape: tuple[int, ...]
    text: tuple[str, ...] = ()

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=int))


@dataclass(frozen=True)
class RobotFacts:
    """The robot behind a function. joints: names of the velocities; bodies: names of the rows of inertial
    parameters; positions: names of the positions, of a robot with closed loops; notes: lines of text."""

    joints: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    urdf_digest: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Entry:
    """A function to export.

    name: its identifier; title: one line; program: straight-line, with the arguments as inputs and the
    results as outputs, in order, and health if it has limits. parameters: {name of an argument: its value}.
    states, results: {name: array (count, *shape)} of reference states and of what the interpreter returns
    there. start: {name of an argument: its value at rest, of the robot itself}. derivatives(): a
    Program of first derivatives with the same inputs, and {(result, argument): its output}, if there is one
    with fewer operations than a differentiated one. lanes: a LaneProgram with the same results,
    if straight lines would be long; fixed: values of those of its inputs that are no arguments.
    """

    name: str
    title: str
    program: Program
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    robot: RobotFacts
    digest: str
    version: str
    precision: str
    libm: bool
    states: dict[str, np.ndarray]
    results: dict[str, np.ndarray]
    start: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    order: int = 0
    lanes: LaneProgram | None = None
    fixed: dict[str, np.ndarray] = field(default_factory=dict)
    derivatives: Callable[[], tuple[Program, dict[tuple[str, str], str]]] | None = None

    @property
    def real(self):
        """The type of its numbers in C."""
        return REAL[self.precision]

    @property
    def can_fail(self):
        """Whether there are states without a result."""
        return bool(self.program.limits)

    @property
    def count(self):
        """Number of reference states."""
        return len(next(iter(self.results.values())))


# --- first derivatives --------------------------------------------------------------------------------------


def first_derivatives(entry: Entry, program: Program) -> tuple[Program, dict[tuple[str, str], str]]:
    """A Program of the derivatives of the Program of an Entry, which may have other names of outputs, and
    {(result, argument): its output}."""
    ins, outs = entry.inputs, entry.outputs
    if entry.derivatives is None:
        first = jacobian(program, [a.name for a in outs], [a.name for a in ins])
        names = {(o.name, i.name): derivative_name(o.name, i.name) for o in outs for i in ins}
    else:
        first, names = entry.derivatives()
    return with_health(first, program), names


def derivative_entry(entry: Entry) -> tuple[Entry, dict[tuple[str, str], str]]:
    """The derivatives as an Entry of the same inputs, and {(result, argument): its output}, without
    zero ones. An output has the axes of the result, then those of the argument."""
    program, names = first_derivatives(entry, entry.program)
    shapes = {a.name: a.shape for a in (*entry.inputs, *entry.outputs)}
    numbers = {pair: without_zeros(program, program.outputs[name]) for pair, name in names.items()}
    pairs = [pair for pair, columns in numbers.items() if (columns >= 0).any()]
    called = {pair: f"d{k}" for k, pair in enumerate(pairs)}
    outputs = {called[pair]: program.outputs[names[pair]] for pair in pairs}
    outputs |= {HEALTH: program.outputs[HEALTH]} if program.limits else {}
    arguments = tuple(Argument(called[o, i], (*shapes[o], *shapes[i])) for o, i in pairs)
    program = replace(program, outputs=outputs)
    derived = replace(entry, program=program, outputs=arguments, derivatives=None, lanes=None)
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
        given = {name: state[name] for name in program.inputs}
        return {**interpret(derived, **state), HEALTH: interpret(program, **given)[HEALTH]}

    return trace(both, derived.inputs, program.limits)
