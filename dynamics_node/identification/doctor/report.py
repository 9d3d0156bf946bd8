"""The doctor's report about one robot, and its lines for the terminal."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ClosureError, ModelError, UnknownNameError
from dynamics_node.identification.doctor.diagnosis import (
    Finding,
    LinkFacts,
    common_errors,
    diagnose,
    negligible,
)
from dynamics_node.identification.doctor.evidence import MassProperties
from dynamics_node.identification.doctor.solids import Geometry, link_geometry
from dynamics_node.identification.doctor.whole_robot import (
    Condition,
    EffortMargin,
    Loops,
    condition_of,
    loops_of,
    margins_of,
    positions_within,
    unseen_parameters,
)
from dynamics_node.robot import parse_robot
from dynamics_node.robot.description import Description
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_shapes import parse_shapes
from dynamics_node.robot.validate import validate
from dynamics_node.text import listed


class RobotReport(NamedTuple):
    """condition: of M; margins: of torques, tightest first; loops: None for a tree; unseen: {body: names of
    irrelevant parameters}."""

    condition: Condition
    margins: list[EffortMargin]
    loops: Loops | None
    unseen: dict[str, tuple[str, ...]]


class DoctorReport(NamedTuple):
    """name of the robot; links: LinkFacts, and geometries by name; findings: about links; common: errors that
    most links share; light: names of links too light to be judged; robot: None if it cannot be loaded or has
    no joints, why: the reason; left_out: skipped elements; warnings: of the description."""

    name: str
    links: list[LinkFacts]
    geometries: dict[str, Geometry]
    findings: list[Finding]
    common: list[str]
    light: set[str]
    robot: RobotReport | None
    why: str
    left_out: list[str]
    warnings: tuple[str, ...]

    @property
    def is_healthy(self):
        """Whether there are no findings."""
        return not (self.findings or self.why or self.robot_findings)

    @property
    def robot_findings(self) -> list[str]:
        """Findings about the robot as a whole."""
        return [*self.common, *([] if self.robot is None else _robot_findings(self.robot))]


def examine(text, folder=".", **choices) -> DoctorReport:
    """DoctorReport about URDF text; meshes are searched from `folder`. choices: as in `parse_robot`. Raises
    ModelError if the text describes no robot, UnknownNameError for joints that it lacks."""
    description = read_description(text)
    warnings = validate(description)
    shapes, left_out = parse_shapes(text)
    missing: list[str] = list(left_out)
    geometries = {
        link.name: link_geometry(shapes.get(link.name, ()), Path(folder), missing)
        for link in description.links
    }
    links = facts(description, {name: geometry.solid for name, geometry in geometries.items()})
    robot, why = _robot(text, choices)
    left = list(dict.fromkeys(missing))
    findings = diagnose(links)
    common = common_errors(links, findings)
    return DoctorReport(
        description.name, links, geometries, findings, common, negligible(links), robot, why, left, warnings
    )


def facts(description: Description, solids) -> list[LinkFacts]:
    """LinkFacts of a Description. solids: {link: Solid or None}."""
    moved = {joint.child for joint in description.joints if joint.kind != "fixed"}
    return [
        LinkFacts(
            link.name,
            MassProperties(np.array(link.mass), link.com, link.inertia),
            solids.get(link.name),
            link.name in moved,
        )
        for link in description.links
    ]


def _robot(text, choices):
    """(RobotReport or None, reason why there is none)."""
    try:
        robot = parse_robot(text, **choices)
        if not robot.nv:
            return None, ""
        q = positions_within(robot)
        loops = loops_of(robot, q) if robot.constrained else None
        return RobotReport(
            condition_of(robot, q), margins_of(robot, q), loops, unseen_parameters(robot.tree)
        ), ""
    except UnknownNameError:  # of the choices, not of the description
        raise
    except (ModelError, ClosureError) as error:
        return None, str(error)


def _robot_findings(robot):
    sentences = []
    if robot.condition.is_bad:
        sentences.append(
            f"the mass matrix has condition {robot.condition.worst:.2g}: link {robot.condition.link!r} has "
            f"almost no inertia about joint {robot.condition.joint!r}; add one, or an armature"
        )
    for margin in robot.margins:
        if margin.share > 1:
            sentences.append(
                f"joint {margin.joint!r} cannot support the robot: gravity needs {margin.gravity:.3g}, "
                f"its effort limit is {margin.effort:.3g}; check the masses of its subtree, or the limit"
            )
    if robot.loops and robot.loops.is_bad:
        names = ", ".join(map(repr, robot.loops.constraints))
        sentences.append(
            f"the loops {names} do not close, or are near a singular position: check their frames"
        )
    return sentences


LISTED = 6  # names per line


def lines(report: DoctorReport):
    """Lines to print."""
    heavy = [link for link in report.links if link.inertial.mass > 0 and link.name not in report.light]
    mass = sum(float(link.inertial.mass) for link in report.links)
    yield (
        f"{report.name}: {len(report.links)} links, {len(heavy)} of them with significant mass, "
        f"{mass:.4g} kg in all"
    )
    if bare := sum(link.solid is None for link in heavy):
        yield f"note: {bare} of these have no readable shape; only their numbers are checked"
    for finding, links in grouped(report.findings):
        yield f"link{'s' if len(links) > 1 else ''} {listed(map(repr, links))}: {sentence(finding)}"
    yield from report.robot_findings
    if report.why:
        yield f"the robot cannot be loaded: {report.why}"
    if report.robot is not None:
        yield from overview(report.robot)
    for line in [*report.left_out[:LISTED], *report.warnings[:LISTED]]:
        yield f"note: {line}"
    for what, entries in (("things left out", report.left_out), ("warnings", report.warnings)):
        if len(entries) > LISTED:
            yield f"note: {len(entries) - LISTED} more {what}; the page lists them"
    count = len(report.findings) + len(report.robot_findings) + bool(report.why)
    yield "healthy" if report.is_healthy else f"{count} finding{'s' if count > 1 else ''}"


def overview(robot):
    """Lines about the robot as a whole."""
    condition = robot.condition
    yield (
        f"condition of the mass matrix: median {condition.median:.3g}, worst {condition.worst:.3g}; "
        f"link {condition.link!r} has the largest effect"
    )
    if robot.margins:
        tightest = robot.margins[0]
        yield (
            f"gravity uses up to {100 * tightest.share:.0f} % of an effort limit, at joint "
            f"{tightest.joint!r}: {tightest.gravity:.3g} of {tightest.effort:.3g}"
        )
    if robot.unseen:
        count = sum(map(len, robot.unseen.values()))
        bodies = "1 body" if len(robot.unseen) == 1 else f"{len(robot.unseen)} bodies"
        yield f"{count} inertial parameters of {bodies} affect no torque"
    if robot.loops:
        yield (
            f"loops {', '.join(map(repr, robot.loops.constraints))}: worst condition "
            f"{robot.loops.worst:.3g} of {robot.loops.closed} closed positions"
        )


def grouped(findings):
    """(Finding, names of the links with the same finding), in order."""
    groups: dict[tuple, tuple[Finding, list]] = {}
    for finding in findings:
        groups.setdefault((finding.cause, finding.symptom), (finding, []))[1].append(finding.link)
    return list(groups.values())


def sentence(finding):
    """The symptom and the remedy."""
    return f"{finding.symptom}; {finding.advice}"
