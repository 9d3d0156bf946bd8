"""Random Sarrus linkages near their home position, with joints at multiples of 45 degrees, for every backend.
Their assemblies have different numbers of motions."""

import numpy as np
from linkages import sarrus

from campaigns.mechanisms import COMPILED, Case, check

__all__ = ["check", "draw"]


def draw(random: np.random.Generator) -> Case:
    """A linkage; one in COMPILED is also compiled."""
    return Case(sarrus(random), bool(random.integers(COMPILED) == 0))
