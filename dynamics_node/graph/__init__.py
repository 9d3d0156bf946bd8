"""The dynamics as a factor graph; elimination in any ordering, on symbols, NumPy and GTSAM."""

from dynamics_node.graph.by_gtsam import gtsam_elimination
from dynamics_node.graph.by_numpy import Elimination, elimination
from dynamics_node.graph.draw import complete_sketch, graph_matrix, net_matrix, to_dot, to_svg
from dynamics_node.graph.eliminated_program import (
    Memory,
    best_ordering,
    elimination_program,
)
from dynamics_node.graph.elimination import Plan, eliminate, eliminate_some, growth, plan_elimination
from dynamics_node.graph.factor_graph import BayesNet, FactorGraph, graph_rank, require_posed
from dynamics_node.graph.observability import Observability, observability
from dynamics_node.graph.ordering import (
    ORDERINGS,
    Ordering,
    chosen_ordering,
    custom_ordering,
    filled,
    generic_graph,
    named_ordering,
    plan_ordering,
)
from dynamics_node.graph.robot_graph import build_graph, robot_factors
from dynamics_node.graph.runners import NumericRunner, dynamics_runner, sensor_runner
from dynamics_node.graph.sensor_fusion import Judgement, chi_square_limit, judge
from dynamics_node.graph.sensor_program import regroups, sensor_program

__all__ = [
    "ORDERINGS",
    "BayesNet",
    "Elimination",
    "FactorGraph",
    "Judgement",
    "Memory",
    "NumericRunner",
    "Observability",
    "Ordering",
    "Plan",
    "best_ordering",
    "build_graph",
    "chi_square_limit",
    "chosen_ordering",
    "complete_sketch",
    "custom_ordering",
    "dynamics_runner",
    "eliminate",
    "eliminate_some",
    "elimination",
    "elimination_program",
    "filled",
    "generic_graph",
    "graph_matrix",
    "graph_rank",
    "growth",
    "gtsam_elimination",
    "judge",
    "named_ordering",
    "net_matrix",
    "observability",
    "plan_elimination",
    "plan_ordering",
    "regroups",
    "require_posed",
    "robot_factors",
    "sensor_program",
    "sensor_runner",
    "to_dot",
    "to_svg",
]
