"""A Report -> one HTML page that opens from disk: text and SVG, no script, nothing from elsewhere."""

from html import escape
from pathlib import Path

from dynamics_node.graph import complete_sketch, graph_matrix, net_matrix, to_svg
from dynamics_node.io.explain_report import Report
from dynamics_node.io.page_frame import document, written
from dynamics_node.io.whole_files import write_text

_STYLE = """
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
_ASKED = {"inverse": "torques", "forward": "accelerations", "hybrid": "torques and accelerations"}
_COMPLETE = 12  # bodies up to which the graph with all that is known is drawn
_LINES = 4000  # of C that the page holds; the file has all


def write_page(report: Report, folder) -> Path:
    """index.html in the folder, and its drawings and the C source as files beside it. Returns its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = _drawings(report)
    for name, svg in drawings.items():
        write_text(folder / f"{name}.svg", svg)
    write_text(folder / "program.c", report.code)
    return written(_html(report, drawings), folder / "index.html")


def _drawings(report):
    net, graph, parents = report.net, report.graph, report.model.tree.parents
    drawings = {
        "factor_graph": to_svg(graph, "what is known is left out; dots are equations", parents),
        "bayes_net": to_svg(net, f"ordering {report.ordering.name}: {len(net.edges)} edges", parents),
        "equations": graph_matrix(graph, report.ordering.variables),
        "triangular": net_matrix(net, graph),
    }
    if report.model.nbodies <= _COMPLETE:
        drawings["complete_graph"] = complete_sketch(report.model, report.problem).svg()
    return drawings


def _html(report, drawings):
    title = f"{report.model.name}: {report.problem.kind} dynamics"
    body = (
        _head(report),
        _graphs(drawings),
        _elimination(report, drawings),
        _orderings(report),
        _code(report),
    )
    return document(title, _STYLE, body)


def _figure(drawings, name):
    """A drawing as wide as the page at most; the file beside the page has its full size."""
    title = "the drawing alone, in its full size"
    return f'<figure><a href="{name}.svg" title="{title}">{drawings[name]}</a></figure>'


def _head(report):
    model = report.model
    facts = {
        "moving bodies": f"{model.nbodies}, root {model.base_link}",
        "coordinates": f"{model.nv}: {_listed(model.v_names)}",
        "asked": f"{_ASKED[report.problem.kind]}, from positions, velocities and what is known of the others",
        "ordering": report.ordering.name,
        "runs as": f"{len(report.program.ops)} operations ({report.code_of})",
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    return f"<h1>{escape(model.name)}</h1><p class=quiet>{report.problem.kind} dynamics</p><dl>{rows}</dl>"


def _listed(names):
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _graphs(drawings):
    complete = ""
    if "complete_graph" in drawings:
        complete = (
            "<p>All variables: position q of every joint, its velocity and acceleration, twist V, "
            "acceleration A and wrench F of every body, torque τ. Squares are known, dots are equations.</p>"
        ) + _figure(drawings, "complete_graph")
    return (
        f"<h2>The equations as a graph</h2>{complete}"
        "<p>Twists follow from q and its rate beforehand. What is known moves to the right-hand sides; these "
        f"variables are left:</p>{_figure(drawings, 'factor_graph')}"
    )


def _elimination(report, drawings):
    order = " ".join(map(str, report.ordering.variables))
    steps = "\n".join(map(str, reversed(list(report.net))))
    safe = (
        "No pivot can vanish: the order is one algorithm for all states."
        if report.plan.safe
        else "Some pivots may become small at particular states: they are checked at run time."
    )
    return (
        "<h2>Elimination</h2>"
        f"<p>Variables are eliminated one by one; each is expressed by others that are still there. {safe} "
        "Read backwards, the result is an algorithm: every variable follows from those that point at it.</p>"
        f"<p class=quiet>{escape(order)}</p>{_figure(drawings, 'bayes_net')}"
        "<p>The same as block-sparse matrices, before and after; red blocks are fill-in. A click "
        "shows a drawing in its full size.</p>"
        f"<div class=side>{_figure(drawings, 'equations')}{_figure(drawings, 'triangular')}</div>"
        "<details><summary>The algorithm: what is computed from what</summary>"
        f"<pre>{escape(steps)}</pre></details>"
    )


def _orderings(report):
    most = max((line.operations or 0 for line in report.lines), default=1)
    rows = "".join(_row(line, most, line.name == report.ordering.name) for line in report.lines)
    return (
        "<h2>Orderings</h2><p>Another ordering is another algorithm. Operations are additions, "
        "multiplications and divisions of its straight-line program for one state; the longest chain is how "
        "many of them wait for another.</p>"
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
    shown = "\n".join(lines[:_LINES])
    rest = f"<p>{len(lines) - _LINES} more lines: program.c</p>" if len(lines) > _LINES else ""
    return (
        f"<h2>Generated C</h2><p>What is compiled for this robot ({escape(report.code_of)}), in program.c "
        "beside this page: numbers and operations in order, no name of the robot.</p>"
        f"<details><summary>{len(lines)} lines</summary><pre>{escape(shown)}</pre>{rest}</details>"
    )
