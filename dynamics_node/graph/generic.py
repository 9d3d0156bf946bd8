"""Plans for a model: orderings tried at a few generic states, once."""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.graph.elimination import Plan, SingularPivotError, plan_elimination
from dynamics_node.graph.factor_graph import FactorGraph
from dynamics_node.graph.ordering import ORDERINGS, Ordering, custom_ordering, named_ordering
from dynamics_node.graph.robot_graph import build_graph, constraint_variables, spanning_problem

STATES = 4


def generic_graph(model, problem) -> FactorGraph:
    """The graph at STATES fixed pseudo-random states (one leading axis)."""
    random = np.random.default_rng(20)
    q = closed_samples(model, STATES, random)
    qd, qdd, tau = random.uniform(-1, 1, (3, STATES, model.nv))
    f_ext = random.uniform(-1, 1, (STATES, model.nbodies, 6))
    return build_graph(model, problem, q, qd, qdd, tau, f_ext)


def stacked(one: FactorGraph, other: FactorGraph) -> FactorGraph:
    """The factors of two graphs with the same variables, at the states of both."""
    return FactorGraph(tuple(_side_by_side(a, b) for a, b in zip(one.factors, other.factors, strict=True)))


def _side_by_side(a, b):
    blocks = {x: _joined(_block(a, x), _block(b, x), 2) for x in a.blocks | b.blocks}
    return replace(a, blocks=blocks, rhs=_joined(a.rhs, b.rhs, 1))


def _block(factor, x):
    return factor.blocks.get(x, np.zeros((factor.rows, x.dim)))


def _joined(a, b, axes):
    """Arrays over STATES, or of no state, one after the other."""
    shape = a.shape[a.ndim - axes :]
    return np.concatenate([np.broadcast_to(x, (STATES, *shape)) for x in (a, b)])


def filled(graph: FactorGraph, blocks) -> FactorGraph:
    """The graph with zeros where the one that was planned for has a block and this one none. blocks: the
    variables of every factor of that one; empty where they are the same."""
    if not blocks:
        return graph
    factors = [
        replace(factor, blocks={x: np.zeros((factor.rows, x.dim)) for x in wanted} | dict(factor.blocks))
        for factor, wanted in zip(graph.factors, blocks, strict=True)
    ]
    return FactorGraph(tuple(factors))


def ordering_of(name, robot, problem, graph) -> Ordering:
    """A named ordering: that of the tree, with the forces of constraints last."""
    spanned = spanning_problem(robot, problem)
    return named_ordering(name, robot.tree, spanned, graph, constraint_variables(robot))


def plan_ordering(model, problem, ordering="best", graph=None) -> tuple[Ordering, Plan]:
    """The Ordering and its Plan, made from the graph at generic states, `generic_graph` by default.

    ordering: 'best' (the Plan with the smallest BayesNet), or as of `chosen_ordering`. Raises ValueError for
    an unknown one, SingularPivotError for one that cannot be followed, naming the variable.
    """
    graph = generic_graph(model, problem) if graph is None else graph
    if isinstance(ordering, str) and ordering == "best":
        return _best(model, problem, graph)
    chosen = chosen_ordering(ordering, model, problem, graph)
    return chosen, plan_elimination(graph, chosen.variables)


def chosen_ordering(ordering, model, problem, graph) -> Ordering:
    """Of a name of ORDERINGS, an Ordering, or a list of variable names. Raises ValueError for an unknown
    one."""
    if isinstance(ordering, Ordering):
        return ordering
    if isinstance(ordering, str):
        return ordering_of(ordering, model, problem, graph)
    return custom_ordering(ordering, graph)


def _best(model, problem, graph):
    plans = []
    for name in ORDERINGS:
        ordering = ordering_of(name, model, problem, graph)
        try:
            plans.append((ordering, plan_elimination(graph, ordering.variables)))
        except SingularPivotError:
            continue
    return min(plans, key=lambda pair: pair[1].size)
