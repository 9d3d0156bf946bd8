"""A Program run by NumPy, operation by operation: what it means, where nothing is compiled."""

from dataclasses import dataclass, field, replace

import numpy as np

from dynamics_node.codegen.results import healthy, returned, taken, without_bad
from dynamics_node.symbolic import Program, Staged, interpret


class Unhurried:
    """A Runner without quick ways: see backends.Runner."""

    checks = False

    def require(self, dtype):
        """It takes any."""

    def prepare(self, batches=False):
        """Nothing is left to do."""

    def solve(self, *arrays):
        """Declined: False."""
        return False

    def few(self, *inputs):
        """Declined: None."""

    def many(self, count, inputs, dtype, out=None):
        """Declined: None."""


@dataclass(frozen=True, eq=False)
class Interpreter(Unhurried):
    """A Runner. parameters: {name: array} of the Program's last inputs."""

    program: Program | Staged
    parameters: dict = field(default_factory=dict)
    backend = "numpy"

    @property
    def inputs(self):
        """{name: shape} of what a call takes."""
        return taken(self.program, self.parameters)

    @property
    def outputs(self):
        """{name: shape} of what a call gives."""
        return returned(self.program)

    def with_parameters(self, values):
        """A Runner with other values {name: array} of the parameters; names it does not have are ignored."""
        return replace(self, parameters={name: values[name] for name in self.parameters})

    def run(self, count, inputs, dtype=np.float64):
        """See backends.Runner; computed with float64."""
        given = dict(zip(self.inputs, inputs, strict=True))
        with np.errstate(all="ignore"):
            found = interpret(self.program, **given, **self.parameters)
        shapes = [numbers.shape for numbers in self.program.outputs.values()]
        outputs = [
            np.array(np.broadcast_to(array, (count, *shape)))
            for array, shape in zip(found.values(), shapes, strict=True)
        ]
        limits = self.program.limits
        good = healthy(outputs.pop(), limits) if limits else np.ones(count, dtype=bool)
        without_bad(outputs, good)
        return outputs, all(np.isfinite(array).all() for array in outputs)
