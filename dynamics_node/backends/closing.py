"""Closed positions at the rate of a controller: Newton's steps, and the rates of all joints, compiled."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dynamics_node.backends.c import Kernel
from dynamics_node.loops.assembly import continued, first_closed
from dynamics_node.loops.close import LARGEST, TOLERANCE, ClosureError, bends, close_loops, positions_of
from dynamics_node.loops.health import HEALTHY
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.spanning import spanning_program
from dynamics_node.program import Program, interpret
from dynamics_node.programs import step_program

MOST_STEPS = 8  # from the last position, a few milliseconds ago, two or three will do


@dataclass(frozen=True, eq=False)
class Closing:
    """closing(q): `close_loops` of one position (nq,), fast when it is nearly closed. Picklable.

    step, rates: Programs; their kernels are None for NumPy. bent: places in q of the joints that take part in
    constraints that are not linear.
    """

    mechanism: Mechanism
    step: Program
    rates: Program
    bent: list[int]
    step_kernel: Kernel | None
    rates_kernel: Kernel | None

    def __call__(self, q):
        """Closed position (nq,), and the condition of the constraints there. Raises ClosureError."""
        q = np.array(q, dtype=float)
        for _ in range(MOST_STEPS):
            following, health = self._one(self.step, self.step_kernel, q)
            change = (following - q)[self.bent]
            if not change @ change <= LARGEST**2:
                break
            q = following
            if health[1] < TOLERANCE**2:
                return q, sqrt(health[0])
        q = close_loops(self.mechanism, q)
        return q, sqrt(self._one(self.step, self.step_kernel, q)[1][0])

    def following(self, q, last=None):
        """The same for a position that follows a closed one, `last` (nq,), on its branch; None: in the
        assembly nearest to zero. Dependent joints that are NaN in q start where they were."""
        if last is None:
            start = np.where(np.isnan(q), self.mechanism.neutral(), q)
            return self(first_closed(self.mechanism, start))
        start = np.where(np.isnan(q), last, q)
        try:
            return self(start)
        except ClosureError:
            return self(continued(self.mechanism, last, start))

    def is_regular(self, q):
        """Whether the loops are closed and not singular at q (nq,)."""
        return bool((self._one(self.step, self.step_kernel, q)[1] <= HEALTHY).all())

    def spread(self, q, qd, qdd):
        """Rates and accelerations (nv of the tree,) of all joints for qd, qdd (nv,) of the independent ones,
        and G (nv of the tree, nv), at closed q (nq,)."""
        return self._one(self.rates, self.rates_kernel, q, qd, qdd)

    @staticmethod
    def _one(program, kernel, *inputs):
        """The outputs of a Program at one state."""
        if kernel is not None:
            outputs = [np.empty(numbers.shape) for numbers in program.outputs.values()]
            if kernel.solve(*inputs, *outputs) is None:
                return outputs
        with np.errstate(all="ignore"):
            return list(interpret(program, **dict(zip(program.inputs, inputs, strict=True))).values())


def make_closing(mechanism: Mechanism, compile_it) -> Closing:
    """Raises CompileError."""
    step, rates = step_program(mechanism), spanning_program(mechanism)
    kernels: list = [None, None]
    if compile_it:
        kernels = [Kernel(program, quaternions=mechanism.quaternion_places) for program in (step, rates)]
    every = range(mechanism.tree.nv)
    bent = bends(mechanism.tree, mechanism.constraints, every)
    places = positions_of(mechanism.tree, [v for v in every if bent[v]])
    return Closing(mechanism, step, rates, places, *kernels)
