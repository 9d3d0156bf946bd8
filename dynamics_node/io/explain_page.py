"""The page about one robot, one problem and the costs of its orderings."""

from pathlib import Path

from dynamics_node.graph import complete_sketch, graph_matrix, net_matrix, to_dot, to_svg
from dynamics_node.io.explain import OrderingReport
from dynamics_node.io.pages import bold, code_block, table, text, write_blocks
from dynamics_node.output_files import making, write_text
from dynamics_node.text import listed

_UNKNOWNS = {"inverse": "torques", "forward": "accelerations", "hybrid": "torques and accelerations"}
_MOST_BODIES = 12  # bodies: the graph of all variables is drawn up to this number
_MOST_LINES = 4000  # of C in the page; the file has all
_BAR = 20  # characters of the longest bar


def write_page(report: OrderingReport, folder) -> Path:
    """Write index.html, its drawings and the C source to the folder. Returns the path of the page."""
    drawings = {f"{name}.svg": svg for name, svg in _drawings(report).items()}
    title = f"{report.robot.name}: {report.problem.kind} dynamics"
    with making(folder) as folder:
        for name, svg in drawings.items():
            write_text(folder / name, svg)
        write_text(folder / "factor_graph.dot", to_dot(report.graph))
        write_text(folder / "bayes_net.dot", to_dot(report.net))
        write_text(folder / "program.c", report.code)
        return write_blocks(folder / "index.html", title, _blocks(report, drawings), drawings)


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


def figure(name: str) -> str:
    """A drawing, at most as wide as the page; it links to the file in full size."""
    return f"[![]({name})]({name})"


def _blocks(report, drawings):
    """Blocks of Markdown."""
    robot, program, contacts = report.robot, report.program, report.problem.contacts
    yield f"# {text(robot.name)}: {report.problem.kind} dynamics"
    facts = [
        ("moving bodies", f"{robot.nbodies}, root {robot.base_link}"),
        ("coordinates", f"{robot.nv}: {listed(robot.v_names, 12)}"),
        ("unknowns", f"{_UNKNOWNS[report.problem.kind]}, from positions, velocities and the known ones"),
        *([("contacts", listed([contact.name for contact in contacts], 12))] if contacts else []),
        ("ordering", report.ordering.name),
        ("runs as", f"{len(program.ops)} operations ({report.code_of})"),
    ]
    yield table(("", ""), facts)
    yield from _graphs(drawings)
    yield from _elimination(report)
    yield from _orderings(report)
    lines = report.code.splitlines()
    more = f"; {len(lines) - _MOST_LINES} more lines: program.c" if len(lines) > _MOST_LINES else ""
    yield "## Generated C"
    yield (
        f"The code compiled for this robot ({text(report.code_of)}), also in program.c: numbers and "
        f"operations in order, without names of the robot. {len(lines)} lines{more}."
    )
    yield code_block("\n".join(lines[:_MOST_LINES]))


def _graphs(drawings):
    yield "## The equations as a graph"
    if "complete_graph.svg" in drawings:
        yield (
            "All variables: position q of every joint, its velocity and acceleration, twist V, "
            "acceleration A and wrench F of every body, torque τ. Squares are known, dots are equations."
        )
        yield figure("complete_graph.svg")
    yield (
        "Twists follow from q and its rate beforehand. Known variables move to the right-hand sides; "
        "these variables remain:"
    )
    yield figure("factor_graph.svg")


def _elimination(report):
    safe = (
        "No pivot can vanish: the order is valid for all states."
        if report.plan.safe
        else "Some pivots may become small at particular states and are checked at run time."
    )
    yield "## Elimination"
    yield (
        f"Variables are eliminated one by one; each is expressed by the remaining ones. {safe} "
        "Read backwards, the result is an algorithm: every variable follows from those that point to it."
    )
    yield text(" ".join(map(str, report.ordering.variables)))
    yield figure("bayes_net.svg")
    yield (
        "The same as block-sparse matrices, before and after; red blocks are fill-in. "
        "Click a drawing to open it in full size."
    )
    yield f"{figure('equations.svg')} {figure('triangular.svg')}"
    yield "The algorithm: each variable from its parents."
    yield code_block("\n".join(map(str, reversed(list(report.net)))))


def _orderings(report):
    most = max((cost.operations or 0 for cost in report.costs), default=1)
    yield "## Orderings"
    yield (
        "Each ordering is an algorithm. Operations are additions, multiplications and divisions of its "
        "straight-line program for one state; the longest chain is the number of sequentially dependent "
        "operations. The drawn ordering is bold."
    )
    head = ("ordering", "edges", "entries", "operations", "longest chain", "", "note")
    rows = []
    for cost in report.costs:
        name = bold(cost.name) if cost.name == report.ordering.name else cost.name
        numbers = ("" if n is None else n for n in (cost.edges, cost.entries, cost.operations, cost.depth))
        bar = "" if cost.operations is None else "█" * max(1, round(_BAR * cost.operations / most))
        rows.append((name, *numbers, bar, cost.note))
    yield table(head, rows)
