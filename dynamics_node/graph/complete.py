"""The factor graph before anything is known: joint positions, velocities and twists are variables too.

Paper 1, figures 1, 3 and 8: twist factor (4), acceleration factor (5), wrench factor (6), torque factor (7).
"""

from dynamics_node.graph.draw import ROWS, node
from dynamics_node.graph.factor_graph import coordinate_owners, owned_by, unknown_of
from dynamics_node.graph.robot_graph import kept_rows, spanning_problem
from dynamics_node.graph.sketch import Sketch
from dynamics_node.graph.variables import torque
from dynamics_node.robot.constraints import LoopJoint

KINDS = ("tau", "F", "A", "V", "qdd", "qd", "q")
KNOWN = ("q", "qd", "V")  # in every problem


def complete_sketch(model, problem=None, title=None) -> Sketch:
    """The Sketch of all variables; what a Problem knows is square, without a Problem nothing is.

    Column 0 is the root; a column beside every tip has the wrench there. With the loops cut,
    as paper 1, figure 11.
    """
    if model.constrained:
        spanned = None if problem is None else spanning_problem(model, problem)
        return _with_constraints(complete_sketch(model.tree, spanned, title), model)
    drawn = Sketch(title or "Dynamics as a factor graph; squares are known", ROWS, model.parents)
    owners = coordinate_owners(model)
    owners_of = [tuple(owned_by(owners, i)) for i in range(model.nbodies)]
    for kind in ("A", "V"):
        drawn.nodes[kind, 0] = node(kind, 0, "0", problem is not None)
    for i in range(model.nbodies):
        asked = None if problem is None else unknown_of(model, problem, owners_of[i][0])
        for kind in KINDS:
            if kind in ("tau", "qdd", "qd", "q") and owners_of[i] != (i,):
                continue
            known = problem is not None and (kind in KNOWN or kind == _other(asked))
            drawn.nodes[kind, i + 1] = node(kind, i + 1, None, known)
    for i, parent in enumerate(model.parents):
        joints = [owner + 1 for owner in owners_of[i]]
        drawn.factors += _factors(drawn, model, i + 1, parent + 1, joints, problem is not None)
    return drawn


def _with_constraints(drawn, mechanism):
    """Constraints are numbered on after the bodies."""
    bodies = {b.joint.v.start: i + 1 for i, b in enumerate(mechanism.bodies) if b.joint.masters is None}
    numbered = enumerate(zip(mechanism.constraints, kept_rows(mechanism), strict=True), mechanism.nbodies + 1)
    for number, (constraint, kept) in numbered:
        if not kept:
            continue
        if isinstance(constraint, LoopJoint):
            ends = [constraint.predecessor + 1, constraint.successor + 1]
            force = ("F", number)
            touched = [(kind, end) for kind in "AV" for end in ends]
            drawn.factors.append((f"loop acceleration {number}", touched))
            _extend(drawn, [f"wrench {end}" for end in ends], force)
            _without_tips(drawn, ends)
        else:
            joints = [bodies[v] for v in constraint.coordinates]
            force = ("C", number)
            drawn.factors.append((f"coupling {number}", [("qdd", joint) for joint in joints]))
            _extend(drawn, [f"torque {joint}" for joint in joints], force)
        drawn.nodes[force] = node(force[0], number)
    return drawn


def _extend(drawn, names, force):
    """Let factors touch one more variable."""
    drawn.factors[:] = [(name, [*keys, force] if name in names else keys) for name, keys in drawn.factors]


def _without_tips(drawn, ends):
    """Where a loop ends there is no tool."""
    for tip in [("F", f"tip {end}") for end in ends]:
        if drawn.nodes.pop(tip, None) is not None:
            drawn.factors[:] = [(name, [k for k in keys if k != tip]) for name, keys in drawn.factors]


def _other(asked):
    """Of torque and acceleration of a joint, the one that is known."""
    return "qdd" if asked.kind == torque(0).kind else "tau"


def _factors(drawn, model, i, parent, joints, known):
    """(name, keys of the variables) of the factors of body i, which moves with these joints; all numbers
    count from 1."""
    children = [c + 1 for c, p in enumerate(model.parents) if p == i - 1]
    beyond: list[tuple] = [key for c in children for key in (("F", c), ("q", c)) if key in drawn.nodes]
    if not children:
        beyond = [("F", f"tip {i}")]
        drawn.nodes[beyond[0]] = node("F", i, "t", known, beside=1)
    q, qd, qdd = ([(kind, joint) for joint in joints] for kind in ("q", "qd", "qdd"))
    yield f"twist {i}", [("V", parent), ("V", i), *q, *qd]
    yield f"acceleration {i}", [("A", parent), ("A", i), ("V", i), *q, *qd, *qdd]
    yield f"wrench {i}", [("F", i), ("A", i), ("V", i), *beyond]
    yield f"torque {i}", [*(("tau", joint) for joint in joints), ("F", i)]
