"""A Report about one robot and one problem: what each ordering costs."""

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
class Line:
    """A way to solve the problem: edges and scalar entries of its Bayes net (None for a recursion), scalar
    operations and their longest chain (None if the ordering is infeasible); note: the reason, or a caveat."""

    name: str
    edges: int | None
    entries: int | None
    operations: int | None
    depth: int | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """One robot, one problem, one ordering, and the alternatives. program: runs the ordering (code_of: its
    name)."""

    robot: Robot
    problem: Problem
    ordering: Ordering
    plan: Plan
    graph: FactorGraph
    net: BayesNet
    lines: tuple[Line, ...]
    program: Program
    code_of: str
    code: str


def make_report(robot: Robot, problem: Problem, ordering="best", callback=lambda line: None) -> Report:
    """Eliminate, trace and count. callback: called with every Line. Raises as `plan_ordering`."""
    graph = generic_graph(robot, problem)
    chosen, plan = plan_ordering(robot, problem, ordering)
    programs: dict[str, Program] = {}
    lines = []
    for name in [*ORDERINGS, *([chosen.name] if chosen.name not in ORDERINGS else [])]:
        lines.append(_line_of_ordering(robot, problem, graph, name, ordering, programs))
        callback(lines[-1])
    for name, program in _recursions(robot, problem).items():
        programs[name] = program
        lines.append(_line(name, program))
        callback(lines[-1])
    code_of = chosen.name if chosen.name in programs else cheapest(programs)[0]
    program = programs[code_of]
    net = eliminate(graph, plan)
    return Report(robot, problem, chosen, plan, graph, net, tuple(lines), program, code_of, render(program))


def _recursions(robot, problem):
    """{name: Program} of the recursive algorithms, over clusters if there are loops."""
    prefix = "clusters" if robot.constrained else "recursion"
    return {f"{prefix}: {name}": program for name, program in dynamics_programs(robot, problem).items()}


def _line_of_ordering(robot, problem, graph, name, ordering, programs):
    """The Line of an ordering; its Program, if feasible, is added to `programs`."""
    requested = name if name in ORDERINGS else ordering
    try:
        _, plan = plan_ordering(robot, problem, requested)
        programs[name] = elimination_program(robot, problem, requested)
    except SingularPivotError as error:
        return Line(name, None, None, None, None, str(error))
    net = eliminate(graph, plan)
    note = "" if plan.safe else "pivots are checked at run time"
    return _line(name, programs[name], len(net.edges), plan.size, note)


def _line(name, program, edges=None, entries=None, note=""):
    counts = program.op_count()
    operations = counts["add"] + counts["mul"] + counts["div"]
    return Line(name, edges, entries, operations, program.depth(), note)
