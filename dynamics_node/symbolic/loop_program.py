"""A Program with loops: sweeps over the bodies of a robot, each body's step a Program."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from dynamics_node.symbolic.program import Program, require_health

PARENT = "parent_"  # prefix of names of the parent's values
RATES = ("qd", "qdd", "tau", "armature")  # with an entry for every velocity coordinate


@dataclass(frozen=True)
class Sweep:
    """One pass over the bodies, outward or inward. steps: a Program for every kind of body; its inputs and
    outputs are named after the body's values, with `parent_` before those of the parent."""

    inward: bool
    steps: tuple[Program, ...]


@dataclass(frozen=True, eq=False)
class LoopProgram:
    """A Program with loops: inputs, outputs and limits as in a Program.

    kinds (n,) of the bodies; table (n, columns): their numbers; q_at, v_at (n,): first index of their
    coordinates; positions (n, 2): a joint position is the first number times its coordinate plus the second;
    arrays: {name: size of the sweeps' result at every body}.
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
        """Number of scalars of every input."""
        return [int(np.prod(shape)) for shape in self.inputs.values()]

    @property
    def input_size(self):
        return sum(self.sizes())

    @property
    def length(self):
        """Operations in the text."""
        return sum(step.length for sweep in self.sweeps for step in sweep.steps)

    def op_count(self):
        """As in a Program, over all bodies."""
        bodies = np.bincount(self.kinds)
        total = Counter({"sin": len(self.kinds), "cos": len(self.kinds)})
        for sweep in self.sweeps:
            for step, count in zip(sweep.steps, bodies.tolist(), strict=True):
                total.update({name: count * number for name, number in step.op_count().items()})
        return dict(total)

    def digest(self):
        """Hash of the complete program."""
        steps = [(sweep.inward, [step.digest() for step in sweep.steps]) for sweep in self.sweeps]
        said = (self.inputs, [*self.outputs], self.limits, self.arrays, steps)
        hashed = hashlib.sha256(repr(said).encode())
        for array in (self.parents, self.kinds, self.table, self.q_at, self.v_at, self.positions):
            hashed.update(np.ascontiguousarray(array).tobytes())
        return hashed.hexdigest()


def only_summed(program: LoopProgram) -> list[str]:
    """Arrays that are added to before they are assigned."""
    written = {name for sweep in program.sweeps for step in sweep.steps for name in step.outputs}
    return [name for name in program.arrays if PARENT + name in written and name not in written]
