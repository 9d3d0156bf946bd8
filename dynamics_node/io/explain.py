"""What each ordering costs for one robot and one problem."""

from dataclasses import dataclass

from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c.render import render
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import (
    ORDERINGS,
    BayesNet,
    FactorGraph,
    Ordering,
    Plan,
    eliminate,
    elimination_program,
    generic_graph,
    plan_ordering,
)
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import Program


@dataclass(frozen=True)
class OrderingCost:
    """A way to solve the problem: edges and scalar entries of its Bayes net (None for a recursion), scalar
    operations and their longest chain (None if the ordering is infeasible); note: the reason, or a caveat."""

    name: str
    edges: int | None = None
    entries: int | None = None
    operations: int | None = None
    depth: int | None = None
    note: str = ""


@dataclass(frozen=True)
class OrderingReport:
    """One robot, one problem, one ordering, and the costs of all. program: runs the ordering (code_of: its
    name)."""

    robot: Robot
    problem: Problem
    ordering: Ordering
    plan: Plan
    graph: FactorGraph
    net: BayesNet
    costs: tuple[OrderingCost, ...]
    program: Program
    code_of: str
    code: str


def make_report(
    robot: Robot, problem: Problem, ordering="best", callback=lambda cost: None
) -> OrderingReport:
    """Eliminate, trace and count. callback: called with every OrderingCost. Raises as `plan_ordering`."""
    graph = generic_graph(robot, problem)
    chosen, plan = plan_ordering(robot, problem, ordering)
    programs: dict[str, Program] = {}
    costs = []
    for cost in _costs(robot, problem, graph, chosen, ordering, programs):
        costs.append(cost)
        callback(cost)
    code_of = chosen.name if chosen.name in programs else cheapest(programs)[0]
    program, net = programs[code_of], eliminate(graph, plan)
    return OrderingReport(
        robot, problem, chosen, plan, graph, net, tuple(costs), program, code_of, render(program)
    )


def _costs(robot, problem, graph, chosen, ordering, programs):
    """OrderingCosts of all orderings, the chosen one and the recursions, whose Programs are added to
    `programs`."""
    for name in dict.fromkeys((*ORDERINGS, chosen.name)):
        requested = name if name in ORDERINGS else ordering
        try:
            _, plan = plan_ordering(robot, problem, requested)
            programs[name] = elimination_program(robot, problem, requested)
        except SingularPivotError as error:
            yield OrderingCost(name, note=str(error))
            continue
        note = "" if plan.safe else "pivots are checked at run time"
        edges = len(eliminate(graph, plan).edges)
        yield OrderingCost(name, edges, plan.size, *_operations(programs[name]), note)
    kind = "clusters" if robot.constrained else "recursion"
    for name, program in dynamics_programs(robot, problem).items():
        programs[f"{kind}: {name}"] = program
        yield OrderingCost(f"{kind}: {name}", None, None, *_operations(program))


def _operations(program) -> tuple[int, int]:
    """Scalar operations and their longest chain."""
    counts = program.op_count()
    return counts["add"] + counts["mul"] + counts["div"], program.depth()
