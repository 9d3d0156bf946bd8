"""The dynamics as a factor graph, and elimination in any ordering (paper 1)."""

from dynamics_node.graph.bayesnet import BayesNet, Conditional
from dynamics_node.graph.build import FactorGraph, build_graph
from dynamics_node.graph.complete import complete_sketch
from dynamics_node.graph.draw import to_dot, to_svg
from dynamics_node.graph.elimination import (
    Plan,
    SingularPivotError,
    eliminate,
    eliminate_some,
    plan_elimination,
)
from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.generic import generic_graph, plan_ordering
from dynamics_node.graph.matrix import graph_matrix, net_matrix
from dynamics_node.graph.ordering import ORDERINGS, Ordering, custom_ordering, named_ordering
from dynamics_node.graph.variables import Variable

__all__ = [
    "ORDERINGS",
    "BayesNet",
    "Conditional",
    "FactorGraph",
    "LinearFactor",
    "Ordering",
    "Plan",
    "SingularPivotError",
    "Variable",
    "build_graph",
    "complete_sketch",
    "custom_ordering",
    "eliminate",
    "eliminate_some",
    "generic_graph",
    "graph_matrix",
    "named_ordering",
    "net_matrix",
    "plan_elimination",
    "plan_ordering",
    "to_dot",
    "to_svg",
]
