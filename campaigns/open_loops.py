"""Random linkages with two to eight loops, drawn open: the zeros of their joints are arbitrary.

Each loads if SciPy closes it, from neutral or from random starts.
"""

from typing import NamedTuple

import numpy as np
from closing_reference import CLOSED, ClosingReference
from linkages import Linkage, drawn_open
from loop_oracle import LoopOracle

import dynamics_node as dn
from dynamics_node.algorithms.first_positions import generic_positions


class Case(NamedTuple):
    """A linkage; text: its URDF+."""

    linkage: Linkage

    @property
    def name(self):
        return f"{self.linkage.name} with {len(self.linkage.ties)} loops"

    @property
    def text(self):
        return self.linkage.text


def draw(random: np.random.Generator) -> Case:
    """A linkage that is open at zero."""
    return Case(drawn_open(random))


def check(case: Case) -> str:
    """'ok', or 'refused: ', 'FALSELY REFUSED: ' or 'SILENT ERROR: ' with the reason."""
    linkage = case.linkage
    try:
        robot = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    except dn.ModelError as error:
        return _judged(str(error), ClosingReference(linkage.text))
    oracle = LoopOracle(linkage.text, robot)
    worst = max(map(oracle.gap, generic_positions(robot)))
    return "ok" if worst < CLOSED else f"SILENT ERROR: closed, though open by {worst:.2g}"


def _judged(reason, reference):
    """The verdict on a ModelError. SciPy finds no closed position, or none that allows a motion."""
    loops = [k for k, tie in enumerate(reference.ties) if repr(tie.name) in reason]
    closed = [*reference.closed(np.random.default_rng(1), loops)]
    unclosed, immobile = "no closed position" in reason and closed, "(mobility 0)" in reason and all(closed)
    return f"{'FALSELY REFUSED' if unclosed or (closed and immobile) else 'refused'}: {reason}"
