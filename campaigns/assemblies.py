"""Random Sarrus linkages at home and beside it, their joints at multiples of 45 degrees, by every backend:
they have assemblies with different numbers of motions."""

import numpy as np
from linkages import sarrus

from campaigns.mechanisms import COMPILED, Case, check

__all__ = ["check", "draw"]


def draw(random: np.random.Generator) -> Case:
    """A linkage; of every fifth one compiled code is tried too."""
    return Case(sarrus(random), bool(random.integers(COMPILED) == 0))
