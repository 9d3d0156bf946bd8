"""The factor graph before anything is known: joint positions, velocities and twists are variables too.

Paper 1, figures 1, 3 and 8: twist factor (4), acceleration factor (5), wrench factor (6), torque factor (7).
"""

from dynamics_node.graph.build import coordinate_owners, unknown_of
from dynamics_node.graph.draw import ROWS, node
from dynamics_node.graph.sketch import Sketch
from dynamics_node.graph.variables import torque

KNOWN = ("q", "qd", "V")  # in every problem


def complete_sketch(model, problem=None, title=None) -> Sketch:
    """The Sketch of all variables; what a Problem knows is square, without a Problem nothing is.

    Column 0 is the root; a column beside every tip has the wrench there.
    """
    drawn = Sketch(title or "Dynamics as a factor graph; squares are known", ROWS)
    owner_of = {i: owner for owner, members in coordinate_owners(model).items() for i in members}
    for kind in ("A", "V"):
        drawn.nodes[kind, 0] = node(kind, 0, "0", problem is not None)
    for i in range(model.nbodies):
        asked = None if problem is None else unknown_of(model, problem, owner_of[i])
        for kind in ROWS:
            if kind in ("tau", "qdd", "qd", "q") and owner_of[i] != i:
                continue
            known = problem is not None and (kind in KNOWN or kind == _other(asked))
            drawn.nodes[kind, i + 1] = node(kind, i + 1, None, known)
    for i, parent in enumerate(model.parents):
        drawn.factors += _factors(drawn, model, i + 1, parent + 1, owner_of[i] + 1, problem is not None)
    return drawn


def _other(asked):
    """Of torque and acceleration of a joint, the one that is known."""
    return "qdd" if asked.kind == torque(0).kind else "tau"


def _factors(drawn, model, i, parent, joint, known):
    """(name, keys of the variables) of the factors of body i; all numbers count from 1."""
    children = [c + 1 for c, p in enumerate(model.parents) if p == i - 1]
    beyond: list[tuple] = [key for c in children for key in (("F", c), ("q", c)) if key in drawn.nodes]
    if not children:
        beyond = [("F", f"tip {i}")]
        drawn.nodes[beyond[0]] = node("F", i + 1, "t", known)
    q, qd, qdd = (("q", joint), ("qd", joint), ("qdd", joint))
    yield f"twist {i}", [("V", parent), ("V", i), q, qd]
    yield f"acceleration {i}", [("A", parent), ("A", i), ("V", i), q, qd, qdd]
    yield f"wrench {i}", [("F", i), ("A", i), ("V", i), *beyond]
    yield f"torque {i}", [("tau", joint), ("F", i)]
