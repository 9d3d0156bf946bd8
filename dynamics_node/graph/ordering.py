"""Elimination orderings: an ordering is an algorithm (paper 1, Tables I-III).

The first five follow the tree; the others use only the graph. Pivots are natural for the first three: row
(6) for F, (5) for A, (7) for tau or qdd. Plans are made at a few generic states, once for a robot
(`plan_ordering`).

With the forces of contacts last, `aba` and `crba` make the Delassus matrix of the contacts (Featherstone,
RBDA, chapter 8; Baraff 1996, Linear-time dynamics using Lagrange multipliers). With forces as early as
possible they are constrained articulated bodies (Vereshchagin 1974; Popov, Vereshchagin and Zenkevich 1978;
Sathya and Carpentier 2024, Constrained articulated body dynamics algorithms), and the sparse elimination of
the equations of motion with their constraints (Carpentier, Budhiraja and Mansard 2021).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.errors import InputError, SingularPivotError
from dynamics_node.graph.contact_factors import ContactState, contact_forces
from dynamics_node.graph.early_forces import with_early_forces
from dynamics_node.graph.elimination import Plan, plan_elimination
from dynamics_node.graph.factor_graph import FactorGraph, coordinate_owners, graph_rank, unknown_of
from dynamics_node.graph.factors import Variable, acceleration, wrench
from dynamics_node.graph.robot_graph import build_graph, constraint_variables, spanning_problem
from dynamics_node.text import listed


class Ordering(NamedTuple):
    """A name and the variables in the order they are eliminated."""

    name: str
    variables: tuple[Variable, ...]

    def __str__(self):
        return f"{self.name}: {' '.join(map(str, self.variables))}"


def rnea_order(robot, problem, graph):
    """tau_n..tau_1, F_1..F_n, A_n..A_1: the recursive Newton-Euler algorithm."""
    bodies = range(robot.nbodies)
    unknown = [unknown_of(robot, problem, owner) for owner in coordinate_owners(robot)]
    return [*reversed(unknown), *map(wrench, bodies), *map(acceleration, reversed(bodies))]


def crba_order(robot, problem, graph):
    """F_n..F_1, A_n..A_1, qdd_n..qdd_1: the composite-rigid-body algorithm."""
    down = range(robot.nbodies - 1, -1, -1)
    unknown = [unknown_of(robot, problem, owner) for owner in coordinate_owners(robot)]
    return [*map(wrench, down), *map(acceleration, down), *reversed(unknown)]


def aba_order(robot, problem, graph):
    """F_i, A_i, qdd_i from the tips to the root: the articulated-body algorithm."""
    owners = coordinate_owners(robot)
    order: list[Variable] = []
    for i in reversed(range(robot.nbodies)):
        order += [wrench(i), acceleration(i)]
        last = [owner for owner, members in owners.items() if min(members) == i]
        order += [unknown_of(robot, problem, owner) for owner in last]  # no other body has the coordinates
    return order


def constrained_aba_order(robot, problem, graph):
    """`aba_order`, every force of a contact or a loop as early as it can be solved: constrained articulated
    bodies."""
    return with_early_forces(robot, problem, aba_order(robot, problem, graph))


def constrained_crba_order(robot, problem, graph):
    """`crba_order`, every force of a contact or a loop as early as it can be solved: the equations M qdd =
    tau + J^T lambda, J qdd = a, branch by branch."""
    return with_early_forces(robot, problem, crba_order(robot, problem, graph))


def colamd_order(robot, problem, graph):
    """Column approximate minimum degree, from SuperLU, for the block pattern."""
    from scipy.sparse import csc_matrix  # takes 0.2 s; only this ordering needs it
    from scipy.sparse.linalg import splu

    variables = graph.variables
    column = {x: k for k, x in enumerate(variables)}
    entries = [(row, column[x]) for row, f in enumerate(graph.factors) for x in f.blocks]
    entries, size = _squared(entries, len(graph.factors), len(variables))
    values = np.random.default_rng(0).uniform(1, 2, len(entries))  # non-singular, like generic values
    pattern = csc_matrix((values, np.array(entries).T), shape=(size, size))
    order = np.argsort(splu(pattern, permc_spec="COLAMD").perm_c)
    return [variables[k] for k in order if k < len(variables)]


def _squared(entries, rows, columns):
    """(entries, size): the pattern padded with single-entry rows and columns until it is square and
    structurally non-singular, as SuperLU requires. Without closed loops nothing is added."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    pattern = csr_matrix((np.ones(len(entries)), np.array(entries).T), shape=(rows, columns))
    column_of = maximum_bipartite_matching(pattern, perm_type="column")
    lone_rows = [row for row in range(rows) if column_of[row] < 0]
    lone_columns = sorted(set(range(columns)) - set(column_of.tolist()))
    more = [(row, columns + k) for k, row in enumerate(lone_rows)]
    more += [(rows + k, column) for k, column in enumerate(lone_columns)]
    return entries + more, columns + len(lone_rows)


def minimum_degree_order(robot, problem, graph):
    """Always the variable with the fewest neighbors; its neighbors become a clique."""
    adjacency = graph.neighbors()
    order = []
    while adjacency:
        x = min(adjacency, key=lambda y: sum(z.dim for z in adjacency[y]))
        order.append(x)
        clique = adjacency.pop(x)
        for y in clique:
            adjacency[y] = (adjacency[y] | clique) - {x, y}
    return order


def nested_dissection_order(robot, problem, graph):
    """Both halves first, the separator between them last, recursively (George 1973)."""
    return _dissect(graph.neighbors(), set(graph.variables))


def _dissect(adjacency, part):
    if len(part) <= 3:
        return sorted(part, key=lambda x: (len(adjacency[x] & part), x))
    component = {x for level in _levels(adjacency, part, min(part)) for x in level}
    if component != part:
        return _dissect(adjacency, component) + _dissect(adjacency, part - component)
    far = _levels(adjacency, part, min(part))[-1]
    levels = _levels(adjacency, part, min(far))
    if len(levels) < 3:
        return sorted(part, key=lambda x: (len(adjacency[x] & part), x))
    separator = levels[_middle(levels)]
    before = {x for level in levels[: levels.index(separator)] for x in level}
    after = part - before - set(separator)
    return _dissect(adjacency, before) + _dissect(adjacency, after) + sorted(separator)


def _levels(adjacency, part, start):
    """Breadth-first levels of a part, from a start."""
    levels, seen = [{start}], {start}
    while levels[-1]:
        levels.append({y for x in levels[-1] for y in adjacency[x] & part} - seen)
        seen |= levels[-1]
    return levels[:-1]


def _middle(levels):
    """The thinnest inner level near the median."""
    sizes = np.cumsum([len(level) for level in levels])
    total = sizes[-1]

    def cost(k):
        return len(levels[k]) + 2.0 * abs(sizes[k] - total / 2) / total * len(levels)

    return min(range(1, len(levels) - 1), key=cost)


ORDERINGS: dict[str, Callable] = {
    "rnea": rnea_order,
    "crba": crba_order,
    "aba": aba_order,
    "constrained_aba": constrained_aba_order,
    "constrained_crba": constrained_crba_order,
    "colamd": colamd_order,
    "metis": nested_dissection_order,
    "minimum_degree": minimum_degree_order,
}


def named_ordering(name: str, robot, problem, graph: FactorGraph, last=()) -> Ordering:
    """One of ORDERINGS by name, for the problem of the tree. last: variables of the graph in addition to
    those of the tree, for the orderings that leave them out. Raises ValueError listing them."""
    if name not in ORDERINGS:
        raise InputError(f"unknown ordering {name!r}; choose one of {', '.join(ORDERINGS)}")
    order = ORDERINGS[name](robot, problem, graph)
    return Ordering(name, tuple([*order, *(x for x in last if x not in order)]))


def custom_ordering(names: Iterable[str], graph: FactorGraph) -> Ordering:
    """An ordering from variable names as they are printed (`F1`, `A1`, `qdd1`; bodies count from 1).

    Raises ValueError with the unknown names.
    """
    by_name = {str(x): x for x in graph.variables}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise InputError(f"the ordering names unknown {', '.join(unknown)}; known: {', '.join(by_name)}")
    return Ordering("custom", tuple(by_name[name] for name in names))


def generic_graph(robot, problem) -> FactorGraph:
    """The graph at some fixed pseudo-random states (one leading axis). With contacts, all are active at the
    first states, and others at as many more: one plan is for all sets."""
    q, random = generic_positions(robot), np.random.default_rng(20)
    contacts = None
    if problem.contacts:
        active = np.ones((2 * len(q), len(problem.contacts)))
        active[len(q) :] = np.arange(len(active) - len(q))[:, None] % (np.arange(active.shape[1]) + 2) > 0
        q = np.concatenate([q, q])
        contacts = ContactState(active, random.uniform(-1, 1, (len(q), len(problem.rows.names))))
    qd, qdd, tau = random.uniform(-1, 1, (3, len(q), robot.nv))
    f_ext = random.uniform(-1, 1, (len(q), robot.nbodies, 6))
    return build_graph(robot, problem, q, qd, qdd, tau, f_ext, contacts=contacts)


def stacked(one: FactorGraph, other: FactorGraph) -> FactorGraph:
    """The factors of two graphs with the same variables, at the states of both, as many of each."""
    count = len(one.factors[0].rhs)
    pairs = zip(one.factors, other.factors, strict=True)
    return FactorGraph(tuple(_side_by_side(a, b, count) for a, b in pairs))


def _side_by_side(a, b, count):
    blocks = {x: _joined(_block(a, x), _block(b, x), count, 2) for x in a.blocks | b.blocks}
    return replace(a, blocks=blocks, rhs=_joined(a.rhs, b.rhs, count, 1))


def _block(factor, x):
    return factor.blocks.get(x, np.zeros((factor.rows, x.dim)))


def _joined(a, b, count, axes):
    """Arrays over `count` states, or independent of the state, concatenated."""
    shape = a.shape[a.ndim - axes :]
    return np.concatenate([np.broadcast_to(x, (count, *shape)) for x in (a, b)])


def filled(graph: FactorGraph, blocks) -> FactorGraph:
    """The graph with zero blocks where the planned graph has a block and this one has none. blocks: the
    variables of every factor of the planned one; empty if they are the same."""
    if not blocks:
        return graph
    factors = [
        replace(factor, blocks={x: np.zeros((factor.rows, x.dim)) for x in wanted} | dict(factor.blocks))
        for factor, wanted in zip(graph.factors, blocks, strict=True)
    ]
    return FactorGraph(tuple(factors))


def ordering_of(name, robot, problem, graph) -> Ordering:
    """A named ordering, with the forces of constraints and contacts last if it does not place them."""
    last = (*constraint_variables(robot), *contact_forces(problem.contacts))
    return named_ordering(name, robot, spanning_problem(robot, problem), graph, last)


def plan_ordering(robot, problem, ordering="best", graph=None) -> tuple[Ordering, Plan]:
    """The Ordering and its Plan, made from the graph at generic states, `generic_graph` by default.

    ordering: 'best' (the Plan with the smallest BayesNet), or as in `chosen_ordering`. Raises ValueError for
    an unknown ordering, SingularPivotError, naming the variable, for an impossible one.
    """
    graph = generic_graph(robot, problem) if graph is None else graph
    if isinstance(ordering, str) and ordering == "best":
        return _best(robot, problem, graph)
    chosen = chosen_ordering(ordering, robot, problem, graph)
    return chosen, plan_of(problem, graph, chosen.variables)


def plan_of(problem, graph, order) -> Plan:
    """The Plan of an order of variables. Raises as `plan_elimination`; for redundant contacts
    SingularPivotError, which names them."""
    try:
        return plan_elimination(graph, order)
    except InputError:
        require_determined_forces(problem, graph)
        raise


def require_determined_forces(problem, graph):
    """Raise SingularPivotError for contacts whose forces the graph leaves open with all contacts active."""
    if not problem.contacts:
        return
    names = set(graph_rank(graph).open)
    forces = zip(contact_forces(problem.contacts), problem.contacts, strict=True)
    if redundant := [repr(contact.name) for x, contact in forces if str(x) in names]:
        raise SingularPivotError(
            f"the forces of contacts {listed(redundant)} are not determined when all contacts are active, so "
            "no ordering solves for them: without an ordering, solver 'best' computes the shortest ones"
        ) from None


def chosen_ordering(ordering, robot, problem, graph) -> Ordering:
    """The Ordering for a name of ORDERINGS, an Ordering, or a list of variable names. Raises ValueError for
    an unknown one."""
    if isinstance(ordering, Ordering):
        return ordering
    if isinstance(ordering, str):
        return ordering_of(ordering, robot, problem, graph)
    return custom_ordering(ordering, graph)


def _best(robot, problem, graph):
    plans = possible_plans(robot, problem, graph).items()
    return min(plans, key=lambda pair: pair[1].size)


def possible_plans(robot, problem, graph) -> dict[Ordering, Plan]:
    """The Plans of the different ones of ORDERINGS. Raises SingularPivotError if none is possible."""
    plans: dict[Ordering, Plan] = {}
    orders, refusal = set(), None
    for name in ORDERINGS:
        ordering = ordering_of(name, robot, problem, graph)
        if ordering.variables in orders:
            continue
        orders.add(ordering.variables)
        try:
            plans[ordering] = plan_of(problem, graph, ordering.variables)
        except SingularPivotError as error:
            refusal = error
    if not plans:
        assert refusal is not None
        raise refusal
    return plans
