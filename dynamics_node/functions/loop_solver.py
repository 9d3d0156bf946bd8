"""Closed positions at the rate of a controller: Newton steps, and the rates of all joints."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from dynamics_node.algorithms.first_positions import continued, first_closed
from dynamics_node.algorithms.health import HEALTHY, why_not
from dynamics_node.algorithms.loop_closure import (
    LARGEST,
    TOLERANCE,
    ClosureError,
    bends,
    close_loops,
    positions_of,
)
from dynamics_node.display import fields_of
from dynamics_node.functions.function import ProgramFunction
from dynamics_node.robot import Robot

MOST_STEPS = 8  # two or three suffice from a position a few milliseconds ago


@dataclass(frozen=True, eq=False)
class LoopSolver:
    """closing(q): `close_loops` of one position (nq,), fast when it is nearly closed. Picklable.

    step: q -> the position after a Newton step, and health at q; rates: q, qd, qdd -> rates and accelerations
    of all joints, and G.
    """

    robot: Robot
    step: ProgramFunction
    rates: ProgramFunction

    def __repr__(self):
        return fields_of(self)

    @cached_property
    def nonlinear(self):
        """Indices in q of the joints that appear in a nonlinear constraint."""
        tree = self.robot.tree
        bent = bends(tree, self.robot.constraints, range(tree.nv))
        return positions_of(tree, np.flatnonzero(bent).tolist())

    def __call__(self, q):
        """Closed position (nq,), and the condition of the constraints there. Raises ClosureError."""
        q = np.array(q, dtype=float)
        for _ in range(MOST_STEPS):
            following, health = self.step(q, errors="nan")
            change = (following - q)[self.nonlinear]
            if not change @ change <= LARGEST**2:
                break
            q = following
            if health[1] < TOLERANCE**2:
                return q, sqrt(health[0])
        q = close_loops(self.robot, q)
        return q, sqrt(self.step(q, errors="nan")[1][0])

    def following(self, q, last=None):
        """The closed position on the branch of `last` (nq,), a closed one; None: in the assembly nearest to
        zero. Dependent joints that are NaN in q start at their previous positions."""
        if last is None:
            start = np.where(np.isnan(q), self.robot.neutral(), q)
            return self(first_closed(self.robot, start))
        start = np.where(np.isnan(q), last, q)
        try:
            return self(start)
        except ClosureError:
            return self(continued(self.robot, last, start))

    def is_regular(self, q):
        """Whether the loops are closed and not singular at q (nq,)."""
        return bool((self.step(q, errors="nan")[1] <= HEALTHY).all())

    def why_not(self, q):
        """Why the loops are open or singular at q (nq,), in words."""
        return why_not(self.robot, None, q)

    def spread(self, q, qd, qdd):
        """Rates and accelerations (nv of the tree,) of all joints at closed q (nq,), and G (nv of the tree,
        nv).

        qd, qdd (nv,): of the independent joints.
        """
        return self.rates(q, qd, qdd, errors="nan")
