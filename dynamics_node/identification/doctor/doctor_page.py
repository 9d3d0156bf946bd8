"""The page of a doctor's report: text and SVG, without scripts."""

from pathlib import Path

import numpy as np

from dynamics_node.identification.doctor.evidence import describe_anomalies, ellipsoid
from dynamics_node.identification.doctor.link_drawing import draw_link
from dynamics_node.identification.doctor.report import DoctorReport, grouped, overview, sentence
from dynamics_node.io import Figures, bold, bullet_list, table, text, write_blocks

_LEGEND = (
    "Gray: convex hulls of the shapes of the link. Blue: the ellipsoid of uniform density with its inertia, "
    "and its center of mass. Orange: the box of uniform density with its inertia. Cross: the link's origin. "
    "For a good link, ellipsoid and box have about its size and directions and lie within it."
)


def write_page(report: DoctorReport, path) -> Path:
    """Write the page to a path and return it; missing folders are created."""
    figures = Figures()
    return write_blocks(path, f"{report.name}: findings of the doctor", _blocks(report, figures), figures)


def _blocks(report, figures):
    """Blocks of Markdown."""
    yield f"# {text(report.name)}: findings of the doctor"
    if report.is_healthy:
        yield f"Healthy: no findings about its {len(report.links)} links."
    else:
        yield "## Findings"
        yield table(("links", "probable cause", "remedy"), _findings(report))
    if report.robot is not None:
        yield from _robot(report.robot)
    yield "## The links"
    yield _LEGEND
    findings = {finding.link: finding for finding in report.findings}
    links = [link for link in report.links if link.inertial.mass > 0 or link.name in findings]
    for link in sorted(links, key=lambda link: link.name not in findings):
        yield from _link(link, findings.get(link.name))
        yield figures.add(draw_link(link.inertial, report.geometries[link.name]))
    notes = [*report.left_out, *report.warnings]
    if report.light:
        names = ", ".join(sorted(report.light))
        notes.append(f"too light to be judged, at most a thousandth of the robot: {names}")
    if notes:
        yield "## Notes"
        yield bullet_list(notes)


def _findings(report):
    for finding, links in grouped(report.findings):
        yield ", ".join(links), finding.cause, sentence(finding)
    for line in report.robot_findings:
        yield "the robot", "", line
    if report.why:
        yield "the robot", "", f"The robot cannot be loaded: {report.why}"


def _robot(robot):
    yield "## The robot as a whole"
    yield bullet_list(overview(robot))
    if robot.margins:
        yield "### Gravity torques and effort limits (N m, N)"
        margins = [(one.joint, one.gravity, one.effort, 100.0 * one.share) for one in robot.margins]
        yield table(("joint", "gravity", "limit", "share, %"), margins)
    if robot.unseen:
        yield "### Irrelevant parameters"
        yield "No joint torque depends on these parameters, about the origin of the body."
        yield table(
            ("body", "parameters"), [(body, ", ".join(names)) for body, names in robot.unseen.items()]
        )


def _link(link, finding):
    yield f"### {text(link.name)}"
    yield text(_numbers(link))
    if finding:
        yield f"{bold(finding.cause)}: {text(sentence(finding))}"
        yield bullet_list(describe_anomalies(link.inertial, link.solid))


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
