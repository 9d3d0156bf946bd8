"""A Report in lines of plain text, for terminals; the page has the same ones."""

from dynamics_node.identification.doctor.diagnosis import Finding
from dynamics_node.identification.doctor.report import Report
from dynamics_node.text import listed

LISTED = 6  # links by name in a line


def lines(report: Report):
    """What to print."""
    heavy = [link for link in report.links if link.inertial.mass > 0 and link.name not in report.light]
    yield f"{report.name}: {len(report.links)} links, {len(heavy)} of them with a mass that matters"
    if bare := sum(link.solid is None for link in heavy):
        yield f"note: {bare} of these have no shape that can be read; their numbers alone are judged"
    for finding, links in grouped(report.findings):
        yield f"{_links(links)}: {sentence(finding)}"
    yield from report.robot_findings
    if report.why:
        yield f"the robot cannot be computed: {report.why}"
    if report.robot is not None:
        yield from facts(report.robot)
    for line in [*report.left_out[:LISTED], *report.warnings[:LISTED]]:
        yield f"note: {line}"
    for what, entries in (("things left out", report.left_out), ("warnings", report.warnings)):
        if len(entries) > LISTED:
            yield f"note: {len(entries) - LISTED} more {what}; the page lists them"
    count = len(report.findings) + len(report.robot_findings) + bool(report.why)
    yield "healthy" if report.is_healthy else f"{count} finding{'s' if count > 1 else ''}"


def facts(robot):
    """About the robot as a whole."""
    condition = robot.condition
    yield (
        f"condition of the mass matrix: {condition.median:.3g} usually, {condition.worst:.3g} at worst; "
        f"link {condition.link!r} spoils it most"
    )
    if robot.margins:
        tightest = robot.margins[0]
        yield (
            f"gravity takes up to {100 * tightest.share:.0f} % of an effort limit, at joint "
            f"{tightest.joint!r}: {tightest.gravity:.3g} of {tightest.effort:.3g}"
        )
    if robot.unseen:
        count = sum(map(len, robot.unseen.values()))
        bodies = "1 body" if len(robot.unseen) == 1 else f"{len(robot.unseen)} bodies"
        yield f"{count} inertial parameters of {bodies} cannot matter, no torque sees them"
    if robot.loops:
        yield (
            f"loops {', '.join(map(repr, robot.loops.constraints))}: condition {robot.loops.worst:.3g} at "
            f"worst of {robot.loops.closed} closed positions"
        )


def grouped(findings):
    """(Finding, names of the links of which the same is told), in order."""
    groups: dict[tuple, tuple[Finding, list]] = {}
    for finding in findings:
        groups.setdefault((finding.cause, finding.told), (finding, []))[1].append(finding.link)
    return list(groups.values())


def _links(links):
    """Names of links, the first ones."""
    return f"link{'s' if len(links) > 1 else ''} {listed(map(repr, links))}"


def sentence(finding):
    """What is odd and what to do."""
    return f"{finding.told}; {finding.advice}"
