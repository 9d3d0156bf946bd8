"""One robot, one problem, its orderings: a Report, and a self-contained HTML page of it."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c.render import render
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import (
    ORDERINGS,
    BayesNet,
    FactorGraph,
    Ordering,
    Plan,
    complete_sketch,
    eliminate,
    elimination_program,
    generic_graph,
    graph_matrix,
    net_matrix,
    plan_ordering,
    to_svg,
)
from dynamics_node.io.pages import document, written
from dynamics_node.output_files import making, write_text
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import Program
from dynamics_node.text import listed


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


# --- the page -----------------------------------------------------------------------------------------------


STYLE = """
figure { overflow-x: auto; } .side { display: flex; flex-wrap: wrap; gap: 1rem; }
.side figure { max-width: 100%; }
table { width: 100%; } th, td { padding: .3rem .6rem; text-align: right; }
th:first-child, td:first-child, td.chart, th.chart { text-align: left; } td.chart { width: 38%; }
tr.chosen td { background: #fff6e0; }
.bar { background: #8db8e8; height: .95rem; border-radius: 2px; }
pre { background: #f6f6f6; padding: .8rem 1rem; border-radius: 6px; overflow: auto; max-height: 34rem;
  font: 13px/1.45 ui-monospace, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: #666; } dd { margin: 0; }
"""
_UNKNOWNS = {"inverse": "torques", "forward": "accelerations", "hybrid": "torques and accelerations"}
_MOST_BODIES = 12  # bodies: the graph of all variables is drawn up to this number
_MOST_LINES = 4000  # of C in the page; the file has all


def write_page(report: Report, folder) -> Path:
    """Write index.html, its drawings and the C source to the folder. Returns the path of the page."""
    drawings = _drawings(report)
    with making(folder) as folder:
        for name, svg in drawings.items():
            write_text(folder / f"{name}.svg", svg)
        write_text(folder / "program.c", report.code)
        return written(_html(report, drawings), folder / "index.html")


def _drawings(report):
    net, graph, parents = report.net, report.graph, report.robot.tree.parents
    drawings = {
        "factor_graph": to_svg(graph, "known variables are omitted; dots are equations", parents),
        "bayes_net": to_svg(net, f"ordering {report.ordering.name}: {len(net.edges)} edges", parents),
        "equations": graph_matrix(graph, report.ordering.variables),
        "triangular": net_matrix(net, graph),
    }
    if report.robot.nbodies <= _MOST_BODIES:
        drawings["complete_graph"] = complete_sketch(report.robot, report.problem).svg()
    return drawings


def _html(report, drawings):
    title = f"{report.robot.name}: {report.problem.kind} dynamics"
    body = (
        _head(report),
        _graphs(drawings),
        _elimination(report, drawings),
        _orderings(report),
        _code(report),
    )
    return document(title, STYLE, body)


def figure(drawings, name):
    """A drawing, at most as wide as the page; it links to the file in full size."""
    title = "open the drawing in full size"
    return f'<figure><a href="{name}.svg" title="{title}">{drawings[name]}</a></figure>'


def _head(report):
    robot = report.robot
    facts = {
        "moving bodies": f"{robot.nbodies}, root {robot.base_link}",
        "coordinates": f"{robot.nv}: {listed(robot.v_names, 12)}",
        "unknowns": f"{_UNKNOWNS[report.problem.kind]}, from positions, velocities and the known ones",
        "ordering": report.ordering.name,
        "runs as": f"{len(report.program.ops)} operations ({report.code_of})",
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    return f"<h1>{escape(robot.name)}</h1><p class=quiet>{report.problem.kind} dynamics</p><dl>{rows}</dl>"


def _graphs(drawings):
    complete = ""
    if "complete_graph" in drawings:
        complete = (
            "<p>All variables: position q of every joint, its velocity and acceleration, twist V, "
            "acceleration A and wrench F of every body, torque τ. Squares are known, dots are equations.</p>"
        ) + figure(drawings, "complete_graph")
    return (
        f"<h2>The equations as a graph</h2>{complete}"
        "<p>Twists follow from q and its rate beforehand. Known variables move to the right-hand sides; "
        f"these variables remain:</p>{figure(drawings, 'factor_graph')}"
    )


def _elimination(report, drawings):
    order = " ".join(map(str, report.ordering.variables))
    steps = "\n".join(map(str, reversed(list(report.net))))
    safe = (
        "No pivot can vanish: the order is valid for all states."
        if report.plan.safe
        else "Some pivots may become small at particular states and are checked at run time."
    )
    return (
        "<h2>Elimination</h2>"
        f"<p>Variables are eliminated one by one; each is expressed by the remaining ones. {safe} "
        "Read backwards, the result is an algorithm: every variable follows from those that point to it.</p>"
        f"<p class=quiet>{escape(order)}</p>{figure(drawings, 'bayes_net')}"
        "<p>The same as block-sparse matrices, before and after; red blocks are fill-in. Click a "
        "drawing to open it in full size.</p>"
        f"<div class=side>{figure(drawings, 'equations')}{figure(drawings, 'triangular')}</div>"
        "<details><summary>The algorithm: each variable from its parents</summary>"
        f"<pre>{escape(steps)}</pre></details>"
    )


def _orderings(report):
    most = max((line.operations or 0 for line in report.lines), default=1)
    rows = "".join(_row(line, most, line.name == report.ordering.name) for line in report.lines)
    return (
        "<h2>Orderings</h2><p>Each ordering is an algorithm. Operations are additions, "
        "multiplications and divisions of its straight-line program for one state; the longest chain is "
        "the number of sequentially dependent operations.</p>"
        "<table><tr><th>ordering</th><th>edges</th><th>entries</th><th>operations</th>"
        f"<th>longest chain</th><th class=chart></th></tr>{rows}</table>"
    )


def _row(line, most, chosen):
    numbers = (line.edges, line.entries, line.operations, line.depth)
    cells = "".join(f"<td>{'' if n is None else n}</td>" for n in numbers)
    chart = f"<span class=quiet>{escape(line.note)}</span>" if line.note else ""
    if line.operations is not None:
        chart = f'<div class=bar style="width:{100 * line.operations / most:.1f}%"></div>{chart}'
    kind = ' class="chosen"' if chosen else ""
    return f"<tr{kind}><td>{escape(line.name)}</td>{cells}<td class=chart>{chart}</td></tr>"


def _code(report):
    lines = report.code.splitlines()
    code = "\n".join(lines[:_MOST_LINES])
    rest = f"<p>{len(lines) - _MOST_LINES} more lines: program.c</p>" if len(lines) > _MOST_LINES else ""
    return (
        f"<h2>Generated C</h2><p>The code compiled for this robot ({escape(report.code_of)}), also in "
        "program.c: numbers and operations in order, without names of the robot.</p>"
        f"<details><summary>{len(lines)} lines</summary><pre>{escape(code)}</pre>{rest}</details>"
    )
