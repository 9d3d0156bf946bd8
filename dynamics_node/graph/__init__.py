"""The dynamics as a factor graph; elimination in any ordering, on symbols, NumPy and GTSAM."""

from dynamics_node.graph.by_gtsam import GtsamElimination, gtsam_elimination
from dynamics_node.graph.by_numpy import Elimination, NumericQuantity, Recursion, Watched, elimination
from dynamics_node.graph.draw import complete_sketch, graph_matrix, net_matrix, to_dot, to_svg
from dynamics_node.graph.eliminated_program import Found, Memory, best_ordering, elimination_program
from dynamics_node.graph.elimination import (
    Plan,
    SingularPivotError,
    eliminate,
    eliminate_some,
    eliminate_watched,
    growth,
    plan_elimination,
    weakest_pivot,
)
from dynamics_node.graph.factor_graph import BayesNet, Conditional, FactorGraph, joint_values
from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.observability import Help, Observability, observability
from dynamics_node.graph.ordering import (
    ORDERINGS,
    Ordering,
    chosen_ordering,
    custom_ordering,
    filled,
    generic_graph,
    named_ordering,
    ordering_of,
    plan_ordering,
    stacked,
)
from dynamics_node.graph.rank import IllPosedError, Rank, graph_rank, require_posed
from dynamics_node.graph.robot_graph import build_graph, build_spanned_graph, robot_factors
from dynamics_node.graph.runners import (
    NumericRunner,
    dynamics_runner,
    elimination_algorithm,
    quantity_runner,
    recursion_runner,
    sensor_runner,
)
from dynamics_node.graph.sensor_fusion import Judgement, SensorLeastSquares, Suspect, chi_square_limit, judge
from dynamics_node.graph.sensor_program import regroups, sensor_program
from dynamics_node.graph.variables import Variable

__all__ = [
    "ORDERINGS",
    "BayesNet",
    "Conditional",
    "Elimination",
    "FactorGraph",
    "Found",
    "GtsamElimination",
    "Help",
    "IllPosedError",
    "Judgement",
    "LinearFactor",
    "Memory",
    "NumericQuantity",
    "NumericRunner",
    "Observability",
    "Ordering",
    "Plan",
    "Rank",
    "Recursion",
    "SensorLeastSquares",
    "SingularPivotError",
    "Suspect",
    "Variable",
    "Watched",
    "best_ordering",
    "build_graph",
    "build_spanned_graph",
    "chi_square_limit",
    "chosen_ordering",
    "complete_sketch",
    "custom_ordering",
    "dynamics_runner",
    "eliminate",
    "eliminate_some",
    "eliminate_watched",
    "elimination",
    "elimination_algorithm",
    "elimination_program",
    "filled",
    "generic_graph",
    "graph_matrix",
    "graph_rank",
    "growth",
    "gtsam_elimination",
    "joint_values",
    "judge",
    "named_ordering",
    "net_matrix",
    "observability",
    "ordering_of",
    "plan_elimination",
    "plan_ordering",
    "quantity_runner",
    "recursion_runner",
    "regroups",
    "require_posed",
    "robot_factors",
    "sensor_program",
    "sensor_runner",
    "stacked",
    "to_dot",
    "to_svg",
    "weakest_pivot",
]
