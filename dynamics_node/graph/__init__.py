"""The dynamics as a factor graph, and elimination in any ordering (paper 1)."""

from dynamics_node.graph.bayesnet import BayesNet, Conditional
from dynamics_node.graph.build import FactorGraph, joint_values
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
from dynamics_node.graph.generic import (
    chosen_ordering,
    filled,
    generic_graph,
    ordering_of,
    plan_ordering,
    stacked,
)
from dynamics_node.graph.matrix import graph_matrix, net_matrix
from dynamics_node.graph.mechanism import build_graph, build_spanned_graph, robot_factors
from dynamics_node.graph.ordering import ORDERINGS, Ordering, custom_ordering, named_ordering
from dynamics_node.graph.rank import IllPosedError, Rank, graph_rank, require_posed
from dynamics_node.graph.variables import Variable
from dynamics_node.graph.watch import eliminate_watched, growth, weakest_pivot

__all__ = [
    "ORDERINGS",
    "BayesNet",
    "Conditional",
    "FactorGraph",
    "IllPosedError",
    "LinearFactor",
    "Ordering",
    "Plan",
    "Rank",
    "SingularPivotError",
    "Variable",
    "build_graph",
    "build_spanned_graph",
    "chosen_ordering",
    "complete_sketch",
    "custom_ordering",
    "eliminate",
    "eliminate_some",
    "eliminate_watched",
    "filled",
    "generic_graph",
    "graph_matrix",
    "graph_rank",
    "growth",
    "joint_values",
    "named_ordering",
    "net_matrix",
    "ordering_of",
    "plan_elimination",
    "plan_ordering",
    "require_posed",
    "robot_factors",
    "stacked",
    "to_dot",
    "to_svg",
    "weakest_pivot",
]
