"""Drawings of factor graphs and Bayes nets: Graphviz DOT, and SVG without any other program.

One column a body, one row a kind of variable, as in the paper's figures.
"""

from functools import singledispatch
from html import escape

from dynamics_node.graph.bayesnet import BayesNet
from dynamics_node.graph.build import FactorGraph

_ROW = {"tau": 0, "F": 1, "A": 2, "qdd": 3}
_COLOUR = {"tau": "#8fc9a9", "F": "#f2b872", "A": "#8db8e8", "qdd": "#d7a3d9"}
_STEP_X, _STEP_Y, _RADIUS = 110, 90, 21


@singledispatch
def to_dot(graph) -> str:
    """Graphviz text of a FactorGraph or a BayesNet."""
    raise TypeError(f"cannot draw {type(graph).__name__}")


@to_dot.register
def _(net: BayesNet) -> str:
    nodes = [f'  "{c.variable}" [style=filled fillcolor="{_COLOUR[c.variable.kind]}"];' for c in net]
    edges = [f'  "{parent}" -> "{child}";' for parent, child in net.edges]
    return "\n".join(["digraph bayesnet {", *nodes, *edges, "}"])


@to_dot.register
def _(graph: FactorGraph) -> str:
    nodes = [f'  "{x}" [style=filled fillcolor="{_COLOUR[x.kind]}"];' for x in graph.variables]
    boxes = [f'  "{f.name}" [shape=point];' for f in graph.factors]
    edges = [f'  "{x}" -- "{f.name}";' for f in graph.factors for x in f.blocks]
    return "\n".join(["graph factors {", *nodes, *boxes, *edges, "}"])


@singledispatch
def to_svg(graph) -> str:
    """SVG text of a FactorGraph or a BayesNet."""
    raise TypeError(f"cannot draw {type(graph).__name__}")


@to_svg.register
def _(net: BayesNet) -> str:
    variables = [conditional.variable for conditional in net]
    arrows = [_arrow(_place(parent), _place(child)) for parent, child in net.edges]
    return _page(variables, arrows, "Bayes net; arrows point from what is known to what follows")


@to_svg.register
def _(graph: FactorGraph) -> str:
    marks = []
    for factor in graph.factors:
        places = [_place(x) for x in factor.blocks]
        centre = _centre(places)
        marks += [_line(centre, place) for place in places]
        marks.append(
            f'<circle cx="{centre[0]:.0f}" cy="{centre[1]:.0f}" r="4"><title>{escape(str(factor))}</title>'
            "</circle>"
        )
    return _page(graph.variables, marks, "Factor graph; dots are equations")


def _centre(places):
    """Amid the variables; above the only one, where it would be hidden."""
    if len(places) == 1:
        return places[0][0], places[0][1] - 2 * _RADIUS
    return tuple(sum(axis) / len(places) for axis in zip(*places, strict=True))


def _place(variable):
    return 60 + _STEP_X * variable.body, 70 + _STEP_Y * _ROW[variable.kind]


def _line(start, end):
    return (
        f'<line x1="{start[0]:.0f}" y1="{start[1]:.0f}" x2="{end[0]:.0f}" y2="{end[1]:.0f}" stroke="#555"/>'
    )


def _arrow(start, end):
    """A curve that bows aside, so that arrows between far columns stay apart from the nodes."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    ux, uy = dx / length, dy / length
    bow = 0.12 * length
    middle = (start[0] + dx / 2 - uy * bow, start[1] + dy / 2 + ux * bow)
    tip = (end[0] - ux * (_RADIUS + 5), end[1] - uy * (_RADIUS + 5))
    return (
        f'<path d="M{start[0]:.0f} {start[1]:.0f} '
        f'Q{middle[0]:.0f} {middle[1]:.0f} {tip[0]:.0f} {tip[1]:.0f}" '
        'fill="none" stroke="#555" marker-end="url(#tip)"/>'
    )


def _node(variable):
    x, y = _place(variable)
    return (
        f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{_COLOUR[variable.kind]}" stroke="#333"/>'
        f'<text x="{x}" y="{y + 5}" text-anchor="middle">{escape(str(variable))}</text>'
    )


def _page(variables, marks, title):
    width = max(440, 120 + _STEP_X * max((x.body for x in variables), default=0))
    height = 120 + _STEP_Y * max(_ROW.values())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="13">',
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="20" y="24">{escape(title)}</text>',
            *marks,
            *map(_node, variables),
            "</svg>",
        ]
    )
