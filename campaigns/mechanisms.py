"""Random and ordinary linkages near their home position, for every backend, against independent references.

One in COMPILED is also compiled, because compilation takes most of the time.
"""

from typing import NamedTuple

import numpy as np
from linkages import ORDINARY, Linkage, spatial
from trials import tried

import dynamics_node as dn

COMPILED = 5  # one in this number of linkages


class Case(NamedTuple):
    """A linkage; text: its URDF+."""

    linkage: Linkage
    compiled: bool

    @property
    def name(self):
        return f"{self.linkage.name}{' (compiled)' if self.compiled else ''}"

    @property
    def text(self):
        return self.linkage.text


def draw(random: np.random.Generator) -> Case:
    """A linkage of any kind."""
    make = random.choice([*ORDINARY, spatial, spatial, spatial])
    return Case(make(random), bool(random.integers(COMPILED) == 0))


def check(case: Case) -> str:
    """'ok', or 'refused: ', 'FALSELY REFUSED: ' or 'SILENT ERROR: ' with the reason."""
    try:
        trial = tried(case.linkage, case.compiled)
    except dn.ModelError as error:
        return f"refused: {error}"
    if trial.wrong:
        return f"SILENT ERROR: {'; '.join(trial.wrong)}"
    if trial.refused:
        return f"FALSELY REFUSED: {'; '.join(trial.refused)}"
    return "ok" if trial.conditions else "refused: every position is singular, or cannot be closed"
