"""A Program in stages: each one is a Program that runs on several lanes side by side.

What is computed alike for many bodies, or columns of a matrix, is one short Program: a processor runs it on
whole vectors, where straight lines would be too long for its caches.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from dynamics_node.symbolic.program import Program, ProgramError, require_health


@dataclass(frozen=True, eq=False)
class Stage:
    """A Program and what every lane reads: reads (inputs of the Program, lanes), numbers of values."""

    program: Program
    reads: np.ndarray

    @property
    def lanes(self):
        return self.reads.shape[1]

    @property
    def results(self):
        """Value numbers, within the Program, of all its outputs (n,)."""
        return np.concatenate([numbers.ravel() for numbers in self.program.outputs.values()])

    @property
    def size(self):
        """Values that it leaves."""
        return len(self.results) * self.lanes


@dataclass(frozen=True, eq=False)
class Staged:
    """Inputs, outputs and limits as of a Program. Values 0, 1, ... in order: the scalars of the inputs, the
    constants, then what every stage leaves: of one result after the other all lanes."""

    inputs: dict[str, tuple[int, ...]]
    constants: np.ndarray
    stages: tuple[Stage, ...]
    outputs: dict[str, np.ndarray]
    limits: tuple[float, ...] = ()

    def __post_init__(self):
        require_health(self)
        count = self.first_result
        for stage in self.stages:
            if len(stage.reads) != stage.program.input_size or np.any(stage.reads >= count):
                raise ProgramError("a stage reads what is not there yet")
            count += stage.size
        if any(np.any(numbers >= count) for numbers in self.outputs.values()):
            raise ProgramError("an output is no value of the stages")

    @property
    def input_size(self):
        return sum(int(np.prod(shape)) for shape in self.inputs.values())

    @property
    def first_result(self):
        """Number of the first value that a stage leaves."""
        return self.input_size + len(self.constants)

    def op_count(self):
        """As of a Program, of all lanes."""
        total: Counter = Counter()
        for stage in self.stages:
            total.update({name: stage.lanes * n for name, n in stage.program.op_count().items()})
        return dict(total)

    @property
    def length(self):
        """Operations that are written down, of one lane each."""
        return sum(len(stage.program.ops) for stage in self.stages)

    def digest(self):
        """Hash of all that it says."""
        hashed = hashlib.sha256(repr((self.inputs, self.limits)).encode())
        hashed.update(np.ascontiguousarray(self.constants).tobytes())
        for stage in self.stages:
            hashed.update(f"{stage.program.digest()} {stage.reads.shape}".encode())
            hashed.update(np.ascontiguousarray(stage.reads).tobytes())
        for name, numbers in self.outputs.items():
            hashed.update(repr((name, numbers.shape)).encode() + np.ascontiguousarray(numbers).tobytes())
        return hashed.hexdigest()
