"""All that the page shows of a robot and a problem."""

from dataclasses import dataclass

from dynamics_node.backends.c.render import render
from dynamics_node.backends.compiled import cost
from dynamics_node.backends.numeric_elimination import numeric_elimination
from dynamics_node.backends.recursive import recursive_engines
from dynamics_node.backends.traced import problem_program
from dynamics_node.graph import (
    ORDERINGS,
    BayesNet,
    FactorGraph,
    Ordering,
    Plan,
    SingularPivotError,
    eliminate,
    generic_graph,
    plan_ordering,
)
from dynamics_node.loops import Mechanism
from dynamics_node.loops.programs import mechanism_programs
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.program import Program


@dataclass(frozen=True)
class Line:
    """A way to solve the problem: edges and scalar entries of its Bayes net (None for a recursion), scalar
    operations and the longest chain of them (None where pivots are checked at run time); note: why."""

    name: str
    edges: int | None
    entries: int | None
    operations: int | None
    depth: int | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """One robot, one problem, one ordering, and the others beside it. program is what runs the ordering, or,
    where pivots are checked at run time, the cheapest other one (code_of says which)."""

    model: Model | Mechanism
    problem: Problem
    ordering: Ordering
    plan: Plan
    graph: FactorGraph
    net: BayesNet
    lines: tuple[Line, ...]
    program: Program
    code_of: str
    code: str


def make_report(
    model: Model | Mechanism, problem: Problem, ordering="best", told=lambda line: None
) -> Report:
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
    code_of = chosen.name if chosen.name in programs else min(programs, key=lambda n: cost(programs[n]))
    program = programs[code_of]
    net = eliminate(graph, plan)
    return Report(model, problem, chosen, plan, graph, net, tuple(lines), program, code_of, render(program))


def _recursions(model, problem):
    """{name: Program} of the recursive algorithms, over clusters where there are loops."""
    if isinstance(model, Mechanism):
        return {f"clusters: {name}": p for name, p in mechanism_programs(model, problem).items()}
    engines = recursive_engines(model, problem)
    return {f"recursion: {engine.description}": problem_program(engine) for engine in engines}


def _elimination(model, problem, graph, name, ordering, programs):
    """The Line of an ordering; its Program, if there is one, goes to `programs`."""
    wanted = name if name in ORDERINGS else ordering
    try:
        engine = numeric_elimination(model, problem, wanted)
    except SingularPivotError as error:
        return Line(name, None, None, None, None, str(error))
    net = eliminate(graph, engine.plan)
    if not engine.straight_line:
        note = "pivots are checked at run time"
        return Line(name, len(net.edges), engine.plan.size, None, None, note)
    programs[name] = problem_program(engine)
    return _line(name, programs[name], len(net.edges), engine.plan.size)


def _line(name, program, edges=None, entries=None):
    counts = program.op_count()
    operations = counts["add"] + counts["mul"] + counts["div"]
    return Line(name, edges, entries, operations, program.depth())
