"""What is exported: a Program with the names, texts and facts that stand beside it."""

from dataclasses import dataclass, field

import numpy as np

from dynamics_node.symbolic import LaneProgram, Program

DTYPES: dict[str, np.dtype] = {"double": np.dtype(np.float64), "single": np.dtype(np.float32)}
REAL = {"double": "double", "single": "float"}


@dataclass(frozen=True)
class Argument:
    """An input or a result: an identifier, its shape, and lines of text about it."""

    name: str
    shape: tuple[int, ...]
    text: tuple[str, ...] = ()

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=int))


@dataclass(frozen=True, eq=False)
class Entry:
    """A function to export.

    name: its identifier; title: one line; program: straight-line, with the arguments as inputs and the
    results as outputs, in order, and health if it has limits. joints: names of the velocities; bodies: names
    of the rows of inertial parameters; parameters: {name of an argument: its value}. states, results: {name:
    array (count, *shape)} of reference states and of what the interpreter returns there. start: {name of an
    argument: its value at rest, of the robot itself}. positions: names of the positions, of a robot with
    closed loops. jacobians: {(result, argument): name of an output of `derivative`}, a Program of first
    derivatives with the same inputs, if there is one with fewer operations than a differentiated one. lanes:
    a LaneProgram with the same results, if straight lines would be long; fixed: values of those of its
    inputs that are no arguments.
    """

    name: str
    title: str
    program: Program
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    joints: tuple[str, ...]
    bodies: tuple[str, ...]
    sizes: dict[str, int]
    digest: str
    urdf_digest: str
    version: str
    precision: str
    libm: bool
    states: dict[str, np.ndarray]
    results: dict[str, np.ndarray]
    start: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    positions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    order: int = 0
    lanes: LaneProgram | None = None
    fixed: dict[str, np.ndarray] = field(default_factory=dict)
    derivative: Program | None = None
    jacobians: dict[tuple[str, str], str] = field(default_factory=dict)

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
