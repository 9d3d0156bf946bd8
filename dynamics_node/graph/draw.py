"""Drawings of factor graphs, Bayes nets and their block-sparse matrices: SVG, and text for Graphviz.

The complete graph, before anything is known, also has joint positions, velocities and twists as variables.
Paper 1, figures 1, 3 and 8: twist factor (4), acceleration factor (5), wrench factor (6), torque factor
(7).
"""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from dynamics_node.graph.contact_factors import sides_of
from dynamics_node.graph.factor_graph import BayesNet, FactorGraph, coordinate_owners, owners_at, unknown_of
from dynamics_node.graph.factors import torque
from dynamics_node.graph.robot_graph import selected_rows, spanning_problem
from dynamics_node.graph.sketch import Node, Sketch
from dynamics_node.robot.constraints import LoopJoint

LOOKS = {  # kind: symbol and color, in rows from the top
    "tau": ("τ", "#8fc9a9"),
    "C": ("C", "#e5a58f"),
    "W": ("W", "#e8d27a"),
    "lambda": ("λ", "#c9a66b"),
    "F": ("F", "#f2b872"),
    "A": ("A", "#8db8e8"),
    "V": ("V", "#b9c9de"),
    "qdd": ("q̈", "#d7a3d9"),
    "qd": ("q̇", "#e3c8e4"),
    "q": ("q", "#eee0ee"),
    "mu": ("μ", "#cccccc"),
}
ROWS = tuple(LOOKS)
_LARGE, _SMALL, _LEFT, _TOP = 26, 13, 88, 52
FILL = "#d9534f"
KINDS = ("tau", "F", "A", "V", "qdd", "qd", "q")
KNOWN = ("q", "qd", "V")  # in every problem


def to_dot(graph: FactorGraph | BayesNet) -> str:
    """Graphviz text."""
    if isinstance(graph, BayesNet):
        kind, variables = "digraph bayesnet", [conditional.variable for conditional in graph]
        lines = [f'  "{parent}" -> "{child}";' for parent, child in graph.edges]
    else:
        kind, variables = "graph factors", list(graph.variables)
        lines = [f'  "{f.name}" [shape=point];' for f in graph.factors]
        lines += [f'  "{x}" -- "{f.name}";' for f in graph.factors for x in f.blocks]
    nodes = [f'  "{x}" [style=filled fillcolor="{_color(x)}"];' for x in variables]
    return "\n".join([f"{kind} {{", *nodes, *lines, "}"])


def to_svg(graph, title=None, parents=()) -> str:
    """SVG text of a FactorGraph, a BayesNet, or of both: eliminated and remaining variables. parents: of the
    bodies, so that a large robot is drawn by its branches."""
    parts = (graph,) if isinstance(graph, (FactorGraph, BayesNet)) else graph
    return sketch(parts, title, parents).svg()


def sketch(parts: Iterable, title=None, parents=()) -> Sketch:
    """The Sketch of FactorGraphs and BayesNets over the same variables."""
    drawn = Sketch(title or _title(parts), ROWS, tuple(parents))
    for part in parts:
        if isinstance(part, BayesNet):
            variables = [conditional.variable for conditional in part]
            drawn.arrows += [(parent, child) for parent, child in part.edges]
            variables += [parent for parent, _ in part.edges]
        elif isinstance(part, FactorGraph):
            variables = list(part.variables)
            drawn.factors += [(str(factor), list(factor.blocks)) for factor in part.factors]
        else:
            raise TypeError(f"cannot draw {type(part).__name__}")
        drawn.nodes.update({x: node(x.kind, x.body + 1) for x in variables})
    return drawn


def node(kind, column, index=None, known=False, offset=0) -> Node:
    """A variable of a kind in the drawing."""
    return Node(column, kind, LOOKS[kind][0], index or str(column), LOOKS[kind][1], known, offset)


def _title(parts):
    kinds = {type(part) for part in parts}
    if kinds == {FactorGraph}:
        return "Factor graph; dots are equations"
    return "Bayes net; arrows point from known variables to those that follow"


def graph_matrix(graph: FactorGraph, ordering=None) -> str:
    """Rows are factors, columns variables (in the order of an elimination, if given)."""
    columns = list(ordering or graph.variables)
    rows = [_Row(factor.name, factor.rows, {x: _color(x) for x in factor.blocks}) for factor in graph.factors]
    return _svg(rows, columns, "equations (rows), unknown variables (columns)")


def net_matrix(net: BayesNet, graph: FactorGraph) -> str:
    """The triangular matrix of elimination; fill-in, absent in the equations, is red."""
    neighbors, rows = graph.neighbors(), []
    for conditional in net:
        x = conditional.variable
        filled = conditional.R.keys() - neighbors[x]
        blocks = {y: FILL if y in filled else _color(y) for y in (x, *conditional.R)}
        rows.append(_Row(str(x), x.dim, blocks))
    return _svg(rows, [row.variable for row in net], "each row determines a variable from those to its right")


class _Row(NamedTuple):
    """Name, number of scalar rows, {variable: color of its block}."""

    name: str
    dim: int
    blocks: dict


def _color(variable):
    return LOOKS[variable.kind][1]


def _size(dim):
    return _SMALL if dim == 1 else _LARGE


def _svg(rows, columns, title):
    lefts, right = _starts([x.dim for x in columns], _LEFT)
    tops, bottom = _starts([row.dim for row in rows], _TOP)
    left = dict(zip(columns, lefts, strict=True))
    size = f'width="{right + 20}" height="{bottom + 12}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {right + 20} {bottom + 12}" '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="8" y="14" font-size="12" fill="#444">{escape(title)}</text>',
            f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" fill="#f6f6f6"/>',
            *(_head(x, at) for x, at in left.items()),
            *(mark for row, top in zip(rows, tops, strict=True) for mark in _marks(row, top, left)),
            "</svg>",
        ]
    )


def _head(variable, at):
    place = f"translate({at + _size(variable.dim) / 2 + 4:.0f} {_TOP - 6}) rotate(-60)"
    return f'<text transform="{place}">{escape(str(variable))}</text>'


def _marks(row, top, left):
    """The name of a row, and its blocks."""
    middle = top + _size(row.dim) / 2 + 4
    yield f'<text x="{_LEFT - 6}" y="{middle:.0f}" text-anchor="end">{escape(row.name)}</text>'
    for x, color in row.blocks.items():
        size = f'width="{_size(x.dim) - 1}" height="{_size(row.dim) - 1}"'
        title = escape(f"{row.name}, {x}: {row.dim} x {x.dim}")
        yield f'<rect x="{left[x]}" y="{top}" {size} fill="{color}"><title>{title}</title></rect>'


def _starts(dims, start):
    """The start of each, and the end of the last."""
    starts = []
    for dim in dims:
        starts.append(start)
        start += _size(dim)
    return starts, start


def complete_sketch(robot, problem=None, title=None) -> Sketch:
    """The Sketch of all variables; those known in a Problem are square, without a Problem none are.

    Column 0 is the root; a column next to every tip has its wrench. Loops are cut, as in paper 1, figure 11.
    """
    if robot.constrained:
        spanned = None if problem is None else spanning_problem(robot, problem)
        return _with_constraints(complete_sketch(robot.tree, spanned, title), robot)
    drawn = Sketch(title or "Dynamics as a factor graph; squares are known", ROWS, robot.parents)
    owners = coordinate_owners(robot)
    owners_of = [tuple(owners_at(owners, i)) for i in range(robot.nbodies)]
    for kind in ("A", "V"):
        drawn.nodes[kind, 0] = node(kind, 0, "0", problem is not None)
    for i in range(robot.nbodies):
        unknown = None if problem is None else unknown_of(robot, problem, owners_of[i][0])
        for kind in KINDS:
            if kind in ("tau", "qdd", "qd", "q") and owners_of[i] != (i,):
                continue
            known = problem is not None and (kind in KNOWN or kind == _other(unknown))
            drawn.nodes[kind, i + 1] = node(kind, i + 1, None, known)
    for i, parent in enumerate(robot.parents):
        joints = [owner + 1 for owner in owners_of[i]]
        drawn.factors += _factors(drawn, robot, i + 1, parent + 1, joints, problem is not None)
    for force, sides in sides_of(robot, problem).items() if problem else ():
        _add_contact(drawn, (force.kind, force.body + 1), [i + 1 for i in sides if i >= 0])
    return drawn


def _add_contact(drawn, force, bodies):
    """Add the force and the factor of a contact."""
    drawn.nodes[force] = node(*force)
    drawn.factors.append((f"contact {force[1]}", [*((kind, i) for kind in "AV" for i in bodies), force]))
    _extend(drawn, [f"wrench {i}" for i in bodies], force)


def _with_constraints(drawn, robot):
    """Number constraints on after the bodies."""
    bodies = {b.joint.v.start: i + 1 for i, b in enumerate(robot.bodies) if b.joint.masters is None}
    numbered = enumerate(zip(robot.constraints, selected_rows(robot), strict=True), robot.nbodies + 1)
    for number, (constraint, selected) in numbered:
        if not selected:
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
    """Add a variable to factors."""
    drawn.factors[:] = [(name, [*keys, force] if name in names else keys) for name, keys in drawn.factors]


def _without_tips(drawn, ends):
    """Remove the tip wrench where a loop ends."""
    for tip in [("F", f"tip {end}") for end in ends]:
        if drawn.nodes.pop(tip, None) is not None:
            drawn.factors[:] = [(name, [k for k in keys if k != tip]) for name, keys in drawn.factors]


def _other(unknown):
    """The known one of torque and acceleration of a joint."""
    return "qdd" if unknown.kind == torque(0).kind else "tau"


def _factors(drawn, robot, i, parent, joints, known):
    """(name, keys of the variables) of the factors of body i, which moves with these joints. All numbers
    count from 1."""
    children = [c + 1 for c, p in enumerate(robot.parents) if p == i - 1]
    outward: list[tuple] = [key for c in children for key in (("F", c), ("q", c)) if key in drawn.nodes]
    if not children:
        outward = [("F", f"tip {i}")]
        drawn.nodes[outward[0]] = node("F", i, "t", known, offset=1)
    q, qd, qdd = ([(kind, joint) for joint in joints] for kind in ("q", "qd", "qdd"))
    yield f"twist {i}", [("V", parent), ("V", i), *q, *qd]
    yield f"acceleration {i}", [("A", parent), ("A", i), ("V", i), *q, *qd, *qdd]
    yield f"wrench {i}", [("F", i), ("A", i), ("V", i), *outward]
    yield f"torque {i}", [*(("tau", joint) for joint in joints), ("F", i)]
