"""All that the page shows of a robot and a problem."""

from dataclasses import dataclass

from dynamics_node.algorithms import cheapest, recursive_programs
from dynamics_node.codegen.c.render import render
from dynamics_node.graph import (
    ORDERINGS,
    BayesNet,
    FactorGraph,
    Ordering,
    Plan,
    SingularPivotError,
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
    operations and the longest chain of them (None where the ordering cannot be followed); note: why, or
    what to mind."""

    name: str
    edges: int | None
    entries: int | None
    operations: int | None
    depth: int | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """One robot, one problem, one ordering, and the others beside it. program is what runs the ordering
    (code_of, by its name)."""

    model: Robot
    problem: Problem
    ordering: Ordering
    plan: Plan
    graph: FactorGraph
    net: BayesNet
    lines: tuple[Line, ...]
    program: Program
    code_of: str
    code: str


def make_report(model: Robot, problem: Problem, ordering="best", told=lambda line: None) -> Report:
    """Eliminate, trace and count. told: hears of every Line. Raises as `plan_ordering`."""
    graph = generic_graph(model, problem)
    chosen, plan = plan_ordering(model, problem, ordering)
    programs: dict[str, Program] = {}
    lines = []
    for name in [*ORDERINGS, *([chosen.name] if chosen.name not in ORDERINGS else [])]:
        lines.append(_elimination(model, problem, graph, name, ordering, programs))
        told(lines[-1])
    for name, program in _recursions(model, problem).items():
        programs[name] = program
        lines.append(_line(name, program))
        told(lines[-1])
    code_of = chosen.name if chosen.name in programs else cheapest(programs)[0]
    program = programs[code_of]
    net = eliminate(graph, plan)
    return Report(model, problem, chosen, plan, graph, net, tuple(lines), program, code_of, render(program))


def _recursions(model, problem):
    """{name: Program} of the recursive algorithms, over clusters where there are loops."""
    what = "clusters" if model.constrained else "recursion"
    return {f"{what}: {name}": program for name, program in recursive_programs(model, problem).items()}


def _elimination(model, problem, graph, name, ordering, programs):
    """The Line of an ordering; its Program, if there is one, goes to `programs`."""
    wanted = name if name in ORDERINGS else ordering
    try:
        _, plan = plan_ordering(model, problem, wanted)
        programs[name] = elimination_program(model, problem, wanted)
    except SingularPivotError as error:
        return Line(name, None, None, None, None, str(error))
    net = eliminate(graph, plan)
    note = "" if plan.safe else "pivots are checked at run time"
    return _line(name, programs[name], len(net.edges), plan.size, note)


def _line(name, program, edges=None, entries=None, note=""):
    counts = program.op_count()
    operations = counts["add"] + counts["mul"] + counts["div"]
    return Line(name, edges, entries, operations, program.depth(), note)
