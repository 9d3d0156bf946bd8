"""A Program with loops: sweeps over the bodies of a robot, each body's step a Program."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from dynamics_node.symbolic.program import Program, require_health

PARENT = "parent_"  # before the name of what is the parent's
RATES = ("qd", "qdd", "tau", "armature")  # have an entry for every velocity coordinate


@dataclass(frozen=True)
class Sweep:
    """One pass over the bodies, from the root to the tips or inward. steps: a Program for every kind of body;
    its inputs and outputs are named after what a body has, its parent's with `parent_` before."""

    inward: bool
    steps: tuple[Program, ...]


@dataclass(frozen=True, eq=False)
class LoopProgram:
    """A Program with loops: inputs, outputs and limits as of a Program.

    kinds (n,) of the bodies; table (n, columns): their numbers; q_at, v_at (n,): where their coordinates
    begin; positions (n, 2): a joint is at the first number times its coordinate plus the second; arrays:
    {name: numbers that the sweeps leave at every body}.
    """

    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, np.ndarray]
    parents: np.ndarray
    kinds: np.ndarray
    table: np.ndarray
    q_at: np.ndarray
    v_at: np.ndarray
    positions: np.ndarray
    arrays: dict[str, int]
    sweeps: tuple[Sweep, ...]
    limits: tuple[float, ...] = ()

    def __post_init__(self):
        require_health(self)

    def sizes(self):
        """Numbers of every input."""
        return [int(np.prod(shape)) for shape in self.inputs.values()]

    @property
    def input_size(self):
        return sum(self.sizes())

    @property
    def length(self):
        """Operations that are written down."""
        return sum(step.length for sweep in self.sweeps for step in sweep.steps)

    def op_count(self):
        """As of a Program, for all bodies."""
        bodies = np.bincount(self.kinds)
        total = Counter({"sin": len(self.kinds), "cos": len(self.kinds)})
        for sweep in self.sweeps:
            for step, count in zip(sweep.steps, bodies.tolist(), strict=True):
                total.update({name: count * number for name, number in step.op_count().items()})
        return dict(total)

    def digest(self):
        """Hash of all that it says."""
        steps = [(sweep.inward, [step.digest() for step in sweep.steps]) for sweep in self.sweeps]
        said = (self.inputs, [*self.outputs], self.limits, self.arrays, steps)
        hashed = hashlib.sha256(repr(said).encode())
        for array in (self.parents, self.kinds, self.table, self.q_at, self.v_at, self.positions):
            hashed.update(np.ascontiguousarray(array).tobytes())
        return hashed.hexdigest()


def only_summed(program: LoopProgram) -> list[str]:
    """Arrays that nothing is written to before something is added."""
    written = {name for sweep in program.sweeps for step in sweep.steps for name in step.outputs}
    return [name for name in program.arrays if PARENT + name in written and name not in written]
