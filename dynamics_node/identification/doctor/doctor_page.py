"""A report as one self-contained HTML page: text and SVG, without scripts.

A figure displays a link in three projections, with the ellipsoid and the box of its inertia.
"""

from html import escape
from pathlib import Path

import numpy as np

from dynamics_node.identification.doctor.evidence import describe_anomalies, ellipsoid
from dynamics_node.identification.doctor.report import Report, grouped, overview, sentence
from dynamics_node.identification.doctor.solids import box
from dynamics_node.io import bullet_list, document, table, written

SIDE = 240  # of a view, in SVG units
MARGIN = 12
CELLS = 56  # along a link: corners in the same cell are merged
MOST = 2000  # triangles per link
VIEWS = (("x", "y", (0, 1)), ("x", "z", (0, 2)), ("y", "z", (1, 2)))
LARGEST_VIEW = 4.0  # link sizes: larger or more distant inertias are omitted, with a note


def draw_link(inertial, geometry) -> str:
    """One <svg> with three views side by side."""
    triangles = [_coarse(surface, MOST // len(geometry.surfaces)) for surface in geometry.surfaces]
    corners = np.concatenate([surface.reshape(-1, 3) for surface in geometry.surfaces] or [np.zeros((0, 3))])
    shape = ellipsoid(inertial) if inertial.mass > 0 else None
    edges = None
    if shape is not None and np.isfinite(shape.sides).all() and shape.sides.max() > 0:
        edges = shape.center + box(np.maximum(shape.sides, 1e-9)) @ shape.axes.T
    low, high, note = _bounds(corners, edges, shape)
    scale = (SIDE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
    middle = 0.5 * (low + high)
    views = []
    for k, (across, up, axes) in enumerate(VIEWS):
        at = list(axes)

        def place(points, at=at):
            flat = (points[..., at] - middle[at]) * scale * (1, -1)
            return flat + SIDE / 2

        parts = [f'<path class="look" d="{_filled(place(own))}"/>' for own in triangles if len(own)]
        if shape is not None and edges is not None:
            parts.append(_ellipse(shape, at, place, scale))
            parts.append(f'<path class="box" d="{_hull_edges(edges, place)}"/>')
        if shape is not None:
            x, y = place(shape.center)
            parts.append(f'<circle class="com" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        x, y = place(np.zeros(3))
        parts.append(f'<path class="origin" d="M{x - 5:.1f} {y:.1f}h10M{x:.1f} {y - 5:.1f}v10"/>')
        parts.append(f'<text x="6" y="{SIDE - 6}">{across} right, {up} up</text>')
        views.append(f'<svg x="{k * SIDE}" width="{SIDE}" height="{SIDE}">{"".join(parts)}</svg>')
    if note:
        views.append(f'<text x="6" y="14">{note}</text>')
    bar = _bar(scale)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * SIDE} {SIDE}" width="{3 * SIDE}">'
        f"{''.join(views)}{bar}</svg>"
    )


def _bounds(corners, edges, shape):
    """Bounds of the views: the link, and its inertia unless that is far too large."""
    points = corners
    if edges is not None:
        reach = np.sqrt(np.diag(_square(shape)))  # of the ellipsoid along the axes
        around = shape.center + np.array([-reach, reach])
        every = np.concatenate([corners, edges.reshape(-1, 3), around])
        own = np.ptp(corners, axis=0).max() if len(corners) else np.inf
        if np.ptp(every, axis=0).max() <= LARGEST_VIEW * own:
            points = every
        else:
            return (
                corners.min(axis=0),
                corners.max(axis=0),
                "the inertia is far larger or more distant than this view",
            )
    elif shape is not None:
        points = np.concatenate([corners, shape.center[None]])
    if not len(points):
        return -0.1 * np.ones(3), 0.1 * np.ones(3), ""
    return points.min(axis=0), points.max(axis=0), ""


def _coarse(triangles, most):
    """At most `most` distinct triangles (n, 3, 3) with corners on a coarse lattice."""
    points = triangles.reshape(-1, 3)
    low, size = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-9)
    cells = CELLS
    while True:
        corners = np.round((triangles - low) / size * cells)
        flat = (corners[:, 0] == corners[:, 1]).all(1) | (corners[:, 1] == corners[:, 2]).all(1)
        flat |= (corners[:, 0] == corners[:, 2]).all(1)
        kept = np.unique(corners[~flat], axis=0)
        if len(kept) <= most or cells <= 8:
            return kept[:most] / cells * size + low
        cells //= 2


def _filled(places):
    """Path data of triangles (n, 3, 2), equally oriented, so that none becomes a hole in another."""
    places = places.round()
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(places, 0, -1)
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    places = np.where((area < 0)[:, None, None], places[:, ::-1], places)[area != 0]
    steps = np.concatenate([places[:, :1], np.diff(places, axis=1)], axis=1).reshape(-1, 6)
    return "".join(
        "M{:.0f} {:.0f}l{:.0f} {:.0f} {:.0f} {:.0f}z".format(*one) for one in np.unique(steps, axis=0)
    )


def _hull_edges(triangles, place):
    """Path data of the edges of a triangulated box, without the diagonals."""
    corners = np.unique(triangles.reshape(-1, 3).round(12), axis=0)
    seen = []
    for one in triangles:
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            if abs((one[a] - one[c]) @ (one[b] - one[c])) < 1e-6 * max(
                np.ptp(corners, axis=0).max() ** 2, 1e-18
            ):
                continue
            seen.append(place(one[[a, b]]))
    return "".join("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*edge.ravel()) for edge in seen)


def _square(shape):
    """A (3, 3) of the ellipsoid x^T A^-1 x <= 1 about its center."""
    return (shape.axes * shape.half_axes**2) @ shape.axes.T


def _ellipse(shape, at, place, scale):
    squares, axes = np.linalg.eigh(_square(shape)[np.ix_(at, at)])
    x, y = place(shape.center)
    turn = -np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    rx, ry = (max(r, 0.5) for r in scale * np.sqrt(np.maximum(squares[::-1], 0)))
    return (
        f'<ellipse class="inertia" rx="{rx:.1f}" ry="{ry:.1f}" '
        f'transform="translate({x:.1f} {y:.1f}) rotate({turn:.1f})"/>'
    )


def _bar(scale):
    """A scale bar."""
    length = 10.0 ** np.floor(np.log10(SIDE / 2 / scale))
    text = f"{length:g} m" if length >= 1 else f"{1000 * length:g} mm"
    x = 3 * SIDE - 8 - length * scale
    line = f'<path class="bar" d="M{x:.1f} {SIDE - 8}h{length * scale:.1f}"/>'
    return f'{line}<text x="{3 * SIDE - 8}" y="{SIDE - 12}" text-anchor="end">{text}</text>'


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
    "Gray: geometry of the link. Blue: the ellipsoid of uniform density with its inertia, and its "
    "center of mass. Orange: the box of uniform density with its inertia. Cross: the link's origin. "
    "For a good link, ellipsoid and box have about its size and directions and lie within it."
)


def write_page(report: Report, path) -> Path:
    """Write the page to a path and return it; missing folders are created."""
    return written(page(report), path)


def page(report: Report) -> str:
    """HTML text; all names of the robot are escaped."""
    title = f"{report.name}: findings of the doctor"
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
        return f"<p>Healthy: no findings about its {len(report.links)} links.</p>"
    whole = [*report.robot_findings, *([f"The robot cannot be loaded: {report.why}"] if report.why else [])]
    rows = [
        *(
            (", ".join(links), finding.cause, sentence(finding))
            for finding, links in grouped(report.findings)
        ),
        *(("the robot", "", line) for line in whole),
    ]
    return f"<h2>Findings</h2>{table(('links', 'probable cause', 'remedy'), rows)}"


def _robot(report):
    robot = report.robot
    if robot is None:
        return ""
    text = "".join(f"<p>{escape(line)}.</p>" for line in overview(robot))
    if robot.margins:
        margins = [(one.joint, one.gravity, one.effort, 100.0 * one.share) for one in robot.margins]
        text += (
            "<details><summary>Gravity torques and effort limits (N m, N)</summary>"
            f"{table(('joint', 'gravity', 'limit', 'share, %'), margins)}</details>"
        )
    if robot.unseen:
        unseen = [(body, ", ".join(names)) for body, names in robot.unseen.items()]
        text += (
            "<details><summary>Irrelevant parameters</summary><p>No joint torque depends on these "
            "parameters, about the origin of the body: they need not be correct.</p>"
            f"{table(('body', 'parameters'), unseen)}</details>"
        )
    return f"<h2>The robot as a whole</h2>{text}"


def _links(report):
    findings = {finding.link: finding for finding in report.findings}
    links = [link for link in report.links if link.inertial.mass > 0 or link.name in findings]
    links.sort(key=lambda link: link.name not in findings)
    figures = "".join(_figure(link, report.geometries[link.name], findings.get(link.name)) for link in links)
    return f"<h2>The links</h2><p>{_LEGEND}</p>{figures}"


def _figure(link, geometry, finding):
    cause = f"<p><b>{escape(finding.cause)}</b>: {escape(sentence(finding))}</p>" if finding else ""
    anomalies = (
        "".join(f"<p>{escape(line)}</p>" for line in describe_anomalies(link.inertial, link.solid))
        if finding
        else ""
    )
    return (
        f"<figure{' class=odd' if finding else ''}><figcaption><h3>{escape(link.name)}</h3>"
        f"<span class=quiet>{escape(_numbers(link))}</span>{cause}{anomalies}</figcaption>"
        f"{draw_link(link.inertial, geometry)}</figure>"
    )


def _numbers(link):
    mass, solid = link.inertial.mass, link.solid
    parts = [f"{mass:.4g} kg"]
    if solid is None:
        parts.append("no readable shape")
    elif mass > 0:
        parts.append(f"{mass / solid.volume:.3g} kg/m\N{SUPERSCRIPT THREE} of its convex hull")
        parts.append(f"link {_size(solid.high - solid.low)}")
    if mass > 0:
        sides = ellipsoid(link.inertial).sides
        parts.append(
            f"box of its inertia {_size(np.sort(sides))}"
            if np.isfinite(sides).all()
            else "no box has this inertia"
        )
    return ", ".join(parts)


def _size(sides):
    return " x ".join(f"{1000 * side:.3g}" for side in sides) + " mm"


def _notes(report):
    entries = [*report.left_out, *report.warnings]
    if report.light:
        names = ", ".join(sorted(report.light))
        entries.append(f"too light to be judged, at most a thousandth of the robot: {names}")
    if not entries:
        return ""
    return f"<h2>Notes</h2>{bullet_list(entries)}"
