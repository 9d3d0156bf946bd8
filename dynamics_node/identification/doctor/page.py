"""A Report -> one HTML page that opens from disk: text and SVG, no script, nothing from elsewhere."""

from html import escape
from pathlib import Path

import numpy as np

from dynamics_node.identification.doctor.drawing import draw_link
from dynamics_node.identification.doctor.evidence import ellipsoid, words
from dynamics_node.identification.doctor.report import Report
from dynamics_node.identification.doctor.words import facts, grouped, sentence
from dynamics_node.io import document, listed, table, written

_STYLE = """
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
figure { padding: .6rem .8rem; } figure.odd { border-color: #d08a2c; background: #fffaf2; }
figcaption { margin-bottom: .4rem; }
.look { fill: #c9ced6; stroke: #b4bac4; stroke-width: .4; }
.inertia { fill: #2f6fb522; stroke: #2f6fb5; stroke-width: 1.5; }
.box { fill: none; stroke: #c4572b; stroke-width: 1.2; } .com { fill: #2f6fb5; }
.origin { stroke: #222; stroke-width: 1; } .bar { stroke: #222; stroke-width: 1.5; }
svg text { font: 11px system-ui, sans-serif; fill: #666; }
"""
_LEGEND = (
    "Grey: what the link looks like. Blue: the ellipsoid of uniform density that has its inertia, and its "
    "centre of mass. Orange: the box of uniform density that has its inertia. Cross: the link's origin. "
    "Ellipsoid and box of a good link are about as large as the link, lie within it and have its directions."
)


def write_page(report: Report, path) -> Path:
    """The page at a path, whose folder is made. Returns it."""
    return written(page(report), path)


def page(report: Report) -> str:
    """HTML text; every name of the robot is escaped."""
    title = f"{report.name}: what the doctor found"
    body = (
        f"<h1>{escape(report.name)}</h1>",
        _findings(report),
        _robot(report),
        _links(report),
        _notes(report),
    )
    return document(title, _STYLE, body)


def _findings(report):
    if report.is_healthy:
        return f"<p>Healthy: nothing is odd about its {len(report.links)} links.</p>"
    whole = [*report.complaints, *([f"The robot cannot be computed: {report.why}"] if report.why else [])]
    rows = [
        *((", ".join(links), found.cause, sentence(found)) for found, links in grouped(report.findings)),
        *(("the robot", "", line) for line in whole),
    ]
    return f"<h2>Findings</h2>{table(('links', 'probable cause', 'what to do'), rows)}"


def _rows(rows):
    """Rows of a table, of text."""
    return "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)


def _robot(report):
    robot = report.robot
    if robot is None:
        return ""
    text = "".join(f"<p>{escape(line)}.</p>" for line in facts(robot))
    margins = "".join(
        f"<tr><td>{escape(margin.joint)}</td><td class=number>{margin.gravity:.3g}</td>"
        f"<td class=number>{margin.effort:.3g}</td><td class=number>{100 * margin.share:.0f} %</td></tr>"
        for margin in robot.margins
    )
    unseen = _rows((body, ", ".join(names)) for body, names in robot.unseen.items())
    if margins:
        numbers = "".join(f"<th class=number>{what}</th>" for what in ("gravity", "limit", "share"))
        text += (
            "<details><summary>Torques of gravity beside effort limits (N m, N)</summary>"
            f"<table><tr><th>joint</th>{numbers}</tr>{margins}</table></details>"
        )
    if unseen:
        text += (
            "<details><summary>Parameters that cannot matter</summary><p>No torque of any joint depends on "
            "them, about the origin of the body: they need not be right.</p>"
            f"<table>{unseen}</table></details>"
        )
    return f"<h2>The robot as a whole</h2>{text}"


def _links(report):
    odd = {finding.link: finding for finding in report.findings}
    shown = [link for link in report.links if link.inertial.mass > 0 or link.name in odd]
    shown.sort(key=lambda link: link.name not in odd)
    figures = "".join(_figure(link, report.geometries[link.name], odd.get(link.name)) for link in shown)
    return f"<h2>The links</h2><p>{_LEGEND}</p>{figures}"


def _figure(link, geometry, finding):
    told = f"<p><b>{escape(finding.cause)}</b>: {escape(sentence(finding))}</p>" if finding else ""
    seen = "".join(f"<p>{escape(line)}</p>" for line in words(link.inertial, link.solid)) if finding else ""
    return (
        f"<figure{' class=odd' if finding else ''}><figcaption><h3>{escape(link.name)}</h3>"
        f"<span class=quiet>{escape(_numbers(link))}</span>{told}{seen}</figcaption>"
        f"{draw_link(link.inertial, geometry)}</figure>"
    )


def _numbers(link):
    mass, solid = link.inertial.mass, link.solid
    parts = [f"{mass:.4g} kg"]
    if solid is None:
        parts.append("no shape that could be read")
    elif mass > 0:
        parts.append(f"{mass / solid.volume:.3g} kg/m\N{SUPERSCRIPT THREE} of its convex hull")
        parts.append(f"link {_size(solid.high - solid.low)}")
    if mass > 0:
        sides = ellipsoid(link.inertial).sides
        parts.append(
            f"box of its inertia {_size(np.sort(sides))}"
            if np.isfinite(sides).all()
            else "no box has its inertia"
        )
    return ", ".join(parts)


def _size(sides):
    return " x ".join(f"{1000 * side:.3g}" for side in sides) + " mm"


def _notes(report):
    entries = [*report.left_out, *report.warnings]
    if report.light:
        names = ", ".join(sorted(report.light))
        entries.append(f"too light to be judged, a thousandth of the robot at most: {names}")
    if not entries:
        return ""
    return f"<h2>Notes</h2>{listed(entries)}"
