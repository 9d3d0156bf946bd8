"""An algorithm at call time as a Runner."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics_node.codegen import NoFastPath
from dynamics_node.robot import Shapes

SAME = ("f_ext", "gravity")  # what algorithms take as the same for all states


@dataclass(frozen=True, eq=False)
class NumericRunner(NoFastPath):
    """A Runner, see backends. algorithm: see the package; inputs, outputs: what it reads and returns. Its one
    parameter is 'robot'."""

    algorithm: Any
    inputs: Shapes
    outputs: Shapes
    backend: str = "numpy"
    program = None

    @property
    def description(self):
        """What runs, for people."""
        return self.algorithm.description

    def with_parameters(self, values):
        """A Runner for values['robot'], a robot that differs in inertias or rotor inertias only."""
        return replace(self, algorithm=self.algorithm.with_inertias(values["robot"]))

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner; but the states have to be good, and LinAlgError is raised when one has no
        solution."""
        arrays = {
            name: array if name in SAME else np.broadcast_to(array, (count, *shape))
            for (name, shape), array in zip(self.inputs.items(), inputs, strict=True)
        }
        with np.errstate(all="ignore"):  # what is not finite is told by the result
            found = self.algorithm(**arrays)
        outputs = [np.array(found[name]) for name in self.outputs]
        return outputs, all(np.isfinite(array).all() for array in outputs)
