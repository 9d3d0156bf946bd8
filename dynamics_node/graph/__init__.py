"""The dynamics as a factor graph; elimination in any ordering, on symbols, NumPy and GTSAM."""

from dynamics_node.graph.by_gtsam import gtsam_elimination
from dynamics_node.graph.by_numpy import elimination
from dynamics_node.graph.contact_least_squares import ContactLeastSquares
from dynamics_node.graph.draw import complete_sketch, graph_matrix, net_matrix, to_dot, to_svg
from dynamics_node.graph.eliminated_program import (
    Memory,
    best_ordering,
    elimination_program,
)
from dynamics_node.graph.elimination import Plan, eliminate, eliminate_some, plan_elimination
from dynamics_node.graph.factor_graph import BayesNet, FactorGraph, graph_rank
from dynamics_node.graph.observability import Observability, observability
from dynamics_node.graph.ordering import (
    ORDERINGS,
    Ordering,
    chosen_ordering,
    custom_ordering,
    generic_graph,
    named_ordering,
    plan_ordering,
)
from dynamics_node.graph.robot_graph import build_graph, robot_factors
from dynamics_node.graph.runners import NumericRunner, dynamics_runner, sensor_runner
from dynamics_node.graph.sensor_fusion import Judgement, chi_square_limit, judge
from dynamics_node.graph.sensor_program import regroups, sensor_program
