"""Plans for a model: orderings tried at a few generic states, once."""

import numpy as np

from dynamics_node.graph.build import FactorGraph, build_graph
from dynamics_node.graph.elimination import Plan, SingularPivotError, plan_elimination
from dynamics_node.graph.ordering import ORDERINGS, Ordering, custom_ordering, named_ordering
from dynamics_node.model.sample import sample_positions

STATES = 4


def generic_graph(model, problem) -> FactorGraph:
    """The graph at STATES fixed pseudo-random states (one leading axis)."""
    random = np.random.default_rng(20)
    q = sample_positions(model, STATES, random)
    qd, qdd, tau = random.uniform(-1, 1, (3, STATES, model.nv))
    f_ext = random.uniform(-1, 1, (STATES, model.nbodies, 6))
    return build_graph(model, problem, q, qd, qdd, tau, f_ext)


def plan_ordering(model, problem, ordering="best") -> tuple[Ordering, Plan]:
    """The Ordering and its Plan.

    ordering: a name of ORDERINGS, 'best' (the Plan with the smallest BayesNet), or a list of
    variable names. Raises ValueError for an unknown one, SingularPivotError for one that cannot be
    followed, naming the variable.
    """
    graph = generic_graph(model, problem)
    if ordering == "best":
        return _best(model, problem, graph)
    chosen = (
        named_ordering(ordering, model, problem, graph)
        if isinstance(ordering, str)
        else custom_ordering(ordering, graph)
    )
    return chosen, plan_elimination(graph, chosen.variables)


def _best(model, problem, graph):
    plans = []
    for name in ORDERINGS:
        ordering = named_ordering(name, model, problem, graph)
        try:
            plans.append((ordering, plan_elimination(graph, ordering.variables)))
        except SingularPivotError:
            continue
    return min(plans, key=lambda pair: pair[1].size)
