"""What elimination leaves: conditionals x = d - sum_k R_k y_k, a directed acyclic graph."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynamics_node.graph.variables import Variable
from dynamics_node.symbolic import matvec


@dataclass(frozen=True, eq=False)
class Conditional:
    """variable = d - sum_k R[y_k] y_k: d (..., dim), R blocks (..., dim, dim_k)."""

    variable: Variable
    R: Mapping[Variable, np.ndarray]
    d: np.ndarray

    def __str__(self):
        parents = ", ".join(map(str, self.R))
        return f"{self.variable} | {parents}" if parents else f"{self.variable}"


@dataclass(frozen=True, eq=False)
class BayesNet:
    """The conditionals in elimination order; iterate over it, print it, draw it (graph.draw)."""

    conditionals: tuple[Conditional, ...]

    def __iter__(self):
        return iter(self.conditionals)

    def __len__(self):
        return len(self.conditionals)

    @property
    def edges(self):
        """(parent, child) pairs: the child is computed from the parent."""
        return tuple((y, c.variable) for c in self.conditionals for y in c.R)

    def solve(self):
        """Back-substitution in reverse order: variable -> value (..., dim)."""
        values: dict[Variable, np.ndarray] = {}
        for conditional in reversed(self.conditionals):
            x = conditional.d
            for y, R in conditional.R.items():
                x = x - matvec(R, values[y])
            values[conditional.variable] = x
        return values

    def __str__(self):
        return "\n".join(map(str, self.conditionals))
