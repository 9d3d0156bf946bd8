"""Drawings of factor graphs and Bayes nets: SVG, and text for Graphviz."""

from collections.abc import Iterable
from functools import singledispatch

from dynamics_node.graph.bayesnet import BayesNet
from dynamics_node.graph.factor_graph import FactorGraph
from dynamics_node.graph.sketch import Node, Sketch

ROWS = ("tau", "C", "W", "F", "A", "V", "qdd", "qd", "q", "mu")
SYMBOL = {
    "tau": "τ",
    "C": "C",
    "mu": "μ",
    "W": "W",
    "F": "F",
    "A": "A",
    "V": "V",
    "qdd": "q̈",
    "qd": "q̇",
    "q": "q",
}
COLOUR = {
    "tau": "#8fc9a9",
    "C": "#e5a58f",
    "mu": "#cccccc",
    "W": "#e8d27a",
    "F": "#f2b872",
    "A": "#8db8e8",
    "V": "#b9c9de",
    "qdd": "#d7a3d9",
    "qd": "#e3c8e4",
    "q": "#eee0ee",
}


@singledispatch
def to_dot(graph) -> str:
    """Graphviz text of a FactorGraph or a BayesNet."""
    raise TypeError(f"cannot draw {type(graph).__name__}")


@to_dot.register
def _(net: BayesNet) -> str:
    nodes = [f'  "{c.variable}" [style=filled fillcolor="{COLOUR[c.variable.kind]}"];' for c in net]
    edges = [f'  "{parent}" -> "{child}";' for parent, child in net.edges]
    return "\n".join(["digraph bayesnet {", *nodes, *edges, "}"])


@to_dot.register
def _(graph: FactorGraph) -> str:
    nodes = [f'  "{x}" [style=filled fillcolor="{COLOUR[x.kind]}"];' for x in graph.variables]
    boxes = [f'  "{f.name}" [shape=point];' for f in graph.factors]
    edges = [f'  "{x}" -- "{f.name}";' for f in graph.factors for x in f.blocks]
    return "\n".join(["graph factors {", *nodes, *boxes, *edges, "}"])


def to_svg(graph, title=None, parents=()) -> str:
    """SVG text of a FactorGraph, a BayesNet, or of both: what is eliminated and what is left. parents: of the
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


def node(kind, column, index=None, known=False, beside=0) -> Node:
    """A variable of a kind in the drawing."""
    return Node(column, kind, SYMBOL[kind], index or str(column), COLOUR[kind], known, beside)


def _title(parts):
    kinds = {type(part) for part in parts}
    if kinds == {FactorGraph}:
        return "Factor graph; dots are equations"
    return "Bayes net; arrows point from what is known to what follows"
