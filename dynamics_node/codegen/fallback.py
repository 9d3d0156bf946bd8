"""Two Runners as one: where the first has no result, the second is asked."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics_node.codegen.results import finite_states


@dataclass(frozen=True, eq=False)
class Backed:
    """A Runner: `first`, and for those of its states without a result `second`, which is slower and surer."""

    first: Any
    second: Any
    checks = False  # states that are bad by themselves are not for the second one

    @property
    def backend(self):
        return self.first.backend

    @property
    def program(self):
        return self.first.program

    @property
    def inputs(self):
        return self.first.inputs

    @property
    def outputs(self):
        return self.first.outputs

    @property
    def solve(self):
        return self.first.solve

    @property
    def few(self):
        return self.first.few

    @property
    def many(self):
        return self.first.many

    @property
    def on_device(self):
        """Of the first alone: what it leaves as NaN on the device stays so. None where it has no device."""
        return getattr(self.first, "on_device", None)

    def with_parameters(self, values):
        """Of both."""
        return replace(
            self, first=self.first.with_parameters(values), second=self.second.with_parameters(values)
        )

    def require(self, dtype):
        """Of the first."""
        self.first.require(dtype)

    def prepare(self, batches=False):
        """Of the first."""
        self.first.prepare(batches)

    def run(self, count, inputs, dtype=np.float64):
        """See Runner; the states have to be good. What the second raises is raised."""
        outputs, good = self.first.run(count, inputs, dtype)
        if good:
            return outputs, good
        bad = ~finite_states(outputs)
        some = [
            array[bad] if array.ndim > len(shape) else array
            for array, shape in zip(inputs, self.inputs.values(), strict=True)
        ]
        again, good = self.second.run(np.count_nonzero(bad), some, dtype)
        for output, array in zip(outputs, again, strict=True):
            output[bad] = array
        return outputs, good
