"""Write an Identified as one self-contained HTML page: text and SVG, no scripts."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.identify import Identified
from dynamics_node.identification.regressor_model import TERMS
from dynamics_node.identification.summary import summary
from dynamics_node.io import Figures, bold, bullet_list, panel, table, text, write_blocks
from dynamics_node.robot.subtree import central_moments, mass_and_moment
from dynamics_node.version import __version__

_COLORS = {"measured": "#999", "described": "#c4572b", "identified": "#2f6fb5"}
_NEGLIGIBLE = 1e-12  # fraction of the largest entry: rounding error
_MOMENTS = {"xx": (0, 0), "xy": (0, 1), "xz": (0, 2), "yy": (1, 1), "yz": (1, 2), "zz": (2, 2)}


def write_page(identified: Identified, path, sources: Iterable[tuple[str, str]] = ()) -> Path:
    """Write the page to a path and return it; missing folders are created. sources: (name, description of
    the data) of each recording."""
    figures = Figures()
    blocks = _blocks(identified, sources, figures)
    return write_blocks(path, f"{identified.linear.robot.name}: identified", blocks, figures)


def _blocks(identified, sources, figures):
    """Blocks of Markdown."""
    yield f"# {text(identified.linear.robot.name)}: identified"
    stages, sources = list(summary(identified)), list(sources)
    for stage, words, good in stages:
        if stage == "judge":
            yield "## Verdict"
            yield f"{'✔' if good else '✘'} {bold(words)}"
    count = len(sources)
    yield f"Identified from {count} recording{'s' * (count != 1)} by dynamics_node {__version__}."
    yield "## Stages"
    verdicts = [(stage, words if good else bold(words)) for stage, words, good in stages]
    yield table(("stage", "verdict"), [*(("read", f"{name}: {words}") for name, words in sources), *verdicts])
    yield from _torques(identified, figures)
    yield from _undetermined(identified)
    yield from _base(identified)
    if "inertia" in identified.linear.terms:
        yield from _bodies(identified)
    yield from _joints(identified)


def _torques(identified, figures):
    samples = identified.samples
    columns = (
        identified.rmse_nominal,
        identified.rmse_fitted,
        identified.rmse_cross_validated,
        identified.solution.spread,
    )
    below = f", all below {identified.cutoff:g} Hz" if identified.cutoff else ""
    yield "## Torques"
    yield (
        "Root mean squares of measured minus computed torques: description, identified parameters, "
        f"cross-validation, and the estimated noise{below}."
    )
    head = ("joint", "unit", "described", "identified", "unseen", "noise")
    yield table(
        head,
        [(name, unit, *(float(column[k]) for column in columns)) for name, unit, k in identified.joints],
    )
    across = "Time in s, recordings concatenated" if samples.timed else "Rows, or s if known"
    drawn = f"; one state in {samples.every} is plotted" if samples.every > 1 else ""
    yield "Torques: gray measured, orange described, blue identified; below them the residuals."
    yield f"Horizontal axis: {across}{drawn}."
    for name, unit, k in identified.joints:
        torques = [(color, getattr(samples, kind)[:, k]) for kind, color in _COLORS.items()]
        left = [(color, torques[0][1] - values) for color, values in torques[1:]]
        yield f"### {text(name)}"
        yield figures.add(panel(samples.time, torques, unit))
        yield figures.add(panel(samples.time, left, f"residual, {unit}", 110))


def _undetermined(identified):
    excitation, unidentifiable = identified.excitation, identified.base.unidentifiable
    yield "## Undetermined parameters"
    if excitation.undetermined:
        yield "The motion does not determine these combinations; they stay near the description."
        yield bullet_list(excitation.undetermined)
    if excitation.weak:
        yield "The motion excites these combinations poorly."
        yield bullet_list(excitation.weak)
    if not excitation.undetermined and not excitation.weak:
        yield "The motion excites every combination that torques depend on."
    if unidentifiable:
        names = text(", ".join(unidentifiable))
        yield f"No torque depends on {len(unidentifiable)} parameters: {names}."


def _base(identified):
    base, solution = identified.base, identified.solution
    described = base.values(identified.linear.described)
    columns = (base.expressions, described.tolist(), solution.x.tolist(), solution.std.tolist())
    joints = [
        ", ".join(names) if len(names) < 4 else f"{len(names)} joints" for names in base.affected_joints
    ]
    yield "## Base parameters"
    yield (
        f"The {base.count} combinations that torques depend on, in kg, m, N and s: least-squares estimates, "
        "and the values of the best consistent bodies."
    )
    head = ("combination", "described", "value", "standard deviation", "of the bodies", "affects")
    yield table(head, zip(*columns, base.values(identified.parameters).tolist(), joints, strict=True))


def _bodies(identified):
    place = identified.linear.places("inertia")
    before, after = (
        inertias_of_parameters(parameters[place].reshape(-1, 10))
        for parameters in (identified.linear.described, identified.parameters)
    )
    rows = []
    for body, one, other in zip(identified.linear.robot.bodies, before, after, strict=True):
        rows += [(body.name, "described", *_numbers(one)), ("", "identified", *_numbers(other))]
    yield "## Bodies"
    yield (
        "A link and everything fixed to it: mass in kg, center of mass in m in link axes, moments of inertia "
        "about it in kg m²."
    )
    yield table(("body", "", "mass", *(f"com {axis}" for axis in "xyz"), *_MOMENTS), rows)


def _numbers(inertia):
    mass, moment = mass_and_moment(inertia)
    if not mass > 0:
        return (0.0,) * 10
    moments = central_moments(inertia)
    moments = np.where(np.abs(moments) < _NEGLIGIBLE * np.abs(moments).max(), 0.0, moments)
    return (float(mass), *(moment / mass).tolist(), *(float(moments[at]) for at in _MOMENTS.values()))


def _joints(identified):
    linear = identified.linear
    terms = [term for term in TERMS if term in linear.terms and term != "inertia"]
    if not terms:
        return
    rows = []
    for k, joint in enumerate(linear.joints):
        values = [
            (linear.described[linear.places(t)][k], identified.parameters[linear.places(t)][k]) for t in terms
        ]
        rows.append((joint.name, *(float(x) for pair in values for x in pair)))
    yield "## Joints"
    yield (
        "Rotor inertia kg m², viscous friction N m s/rad, Coulomb friction and offset N m, spring N m/rad; "
        "for prismatic joints in m and N."
    )
    head = ("joint", *(f"{term} {when}" for term in terms for when in ("described", "identified")))
    yield table(head, rows)
