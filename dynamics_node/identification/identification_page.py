"""Write an Identified as one self-contained HTML page: text and SVG, no scripts."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.identify import Identified
from dynamics_node.identification.regressor_model import TERMS
from dynamics_node.identification.summary import summary
from dynamics_node.io import bullet_list, document, panel, table, written
from dynamics_node.robot.subtree import central_moments, mass_and_moment

_STYLE = """
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
table { display: block; overflow-x: auto; } figure { padding: .6rem .8rem; }
tr.odd td { background: #fff6e0; }
"""
_COLORS = {"measured": "#999", "described": "#c4572b", "identified": "#2f6fb5"}
_LEGEND = (
    f'<p>Torques: <span style="color:{_COLORS["measured"]}">grey measured</span>, '
    f'<span style="color:{_COLORS["described"]}">orange described</span>, '
    f'<span style="color:{_COLORS["identified"]}">blue identified</span>; below them the residuals.</p>'
)
_NEGLIGIBLE = 1e-12  # fraction of the largest entry: rounding error
_MOMENTS = {"xx": (0, 0), "xy": (0, 1), "xz": (0, 2), "yy": (1, 1), "yz": (1, 2), "zz": (2, 2)}


def write_page(identified: Identified, path, sources: Iterable[tuple[str, str]] = ()) -> Path:
    """Write the page to a path and return it; missing folders are created. All names of the robot and its
    files are escaped. sources: (name, description of the data) of each recording."""
    return written(_page(identified, sources), path)


def _page(identified, sources):
    robot = identified.linear.robot
    parts = (
        f"<h1>{escape(robot.name)}</h1><p class=quiet>Parameters identified from recordings.</p>",
        _stages(identified, sources),
        _torques(identified),
        _open(identified),
        _base(identified),
        _bodies(identified),
        _joints(identified),
    )
    return document(f"{robot.name}: identified", _STYLE, parts)


def _stages(identified, sources):
    rows = [("read", f"{name}: {text}", True) for name, text in sources]
    cells = "".join(
        f"<tr{'' if good else ' class=odd'}><td>{escape(stage)}</td><td>{escape(text)}</td></tr>"
        for stage, text, good in (*rows, *summary(identified))
    )
    return f"<h2>Stages</h2><table><tr><th>stage</th><th>verdict</th></tr>{cells}</table>"


def _torques(identified):
    columns = (
        identified.rmse_nominal,
        identified.rmse_fitted,
        identified.rmse_cross_validated,
        identified.solution.spread,
    )
    head = ("joint", "unit", "described", "identified", "unseen", "noise")
    numbers = table(
        head, [(name, unit, *(float(own[k]) for own in columns)) for name, unit, k in identified.joints]
    )
    figures = "".join(_figure(identified.samples, k, name, unit) for name, unit, k in identified.joints)
    return (
        "<h2>Torques</h2><p>Root mean squares of measured minus computed torques: description, identified "
        "parameters, cross-validation, and the estimated noise"
        f"{f', all below {identified.cutoff:g} Hz' if identified.cutoff else ''}.</p>"
        f"{numbers}{_LEGEND}{figures}{_thinned(identified.samples)}"
    )


def _figure(samples, k, name, unit):
    torques = [(color, getattr(samples, kind)[:, k]) for kind, color in _COLORS.items()]
    left = [(color, torques[0][1] - values) for color, values in torques[1:]]
    return (
        f"<figure><figcaption><h3>{escape(name)}</h3></figcaption>"
        f"{panel(samples.time, torques, unit)}{panel(samples.time, left, f'residual, {unit}', 110)}</figure>"
    )


def _thinned(samples):
    across = "Time in s, recordings concatenated" if samples.timed else "Rows, or s if known"
    drawn = f"; one state in {samples.every} is plotted" if samples.every > 1 else ""
    return f"<p class=quiet>Horizontal axis: {across}{drawn}.</p>"


def _open(identified):
    excitation, unidentifiable = identified.excitation, identified.base.unidentifiable
    texts = {
        "The motion does not determine these combinations; they stay near the description.": (
            excitation.undetermined
        ),
        "The motion excites these combinations poorly.": excitation.weak,
    }
    open_text = "".join(f"<p>{text}</p>{bullet_list(own)}" for text, own in texts.items() if own)
    open_text = open_text or "<p>The motion excites every combination that torques depend on.</p>"
    never = f"<details><summary>{len(unidentifiable)} parameters that no torque depends on</summary><p>"
    names = escape(", ".join(unidentifiable) or "none")
    return f"<h2>Undetermined parameters</h2>{open_text}{never}{names}</p></details>"


def _base(identified):
    base, solution = identified.base, identified.solution
    described = base.values(identified.linear.described)
    columns = (base.expressions, described.tolist(), solution.x.tolist(), solution.std.tolist())
    joints = [
        ", ".join(names) if len(names) < 4 else f"{len(names)} joints" for names in base.affected_joints
    ]
    rows = zip(*columns, base.values(identified.parameters).tolist(), joints, strict=True)
    head = ("combination", "described", "value", "standard deviation", "of the bodies", "affects")
    return (
        "<h2>Base parameters</h2><p>The combinations that torques depend on, in kg, m, N and s: "
        "least-squares estimates, and the values of the best consistent bodies.</p><details open><summary>"
        f"{base.count} combinations</summary>{table(head, rows)}</details>"
    )


def _bodies(identified):
    if "inertia" not in identified.linear.terms:
        return ""
    place = identified.linear.places("inertia")
    before, after = (
        inertias_of_parameters(own[place].reshape(-1, 10))
        for own in (identified.linear.described, identified.parameters)
    )
    rows = []
    for body, one, other in zip(identified.linear.robot.bodies, before, after, strict=True):
        rows += [(body.name, "described", *_numbers(one)), ("", "identified", *_numbers(other))]
    head = ("body", "", "mass", *(f"com {axis}" for axis in "xyz"), *_MOMENTS)
    return (
        "<h2>Bodies</h2><p>A link and everything fixed to it: mass in kg, center of mass in m in link "
        f"axes, moments of inertia about it in kg m².</p>{table(head, rows)}"
    )


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
        return ""
    rows = []
    for k, joint in enumerate(linear.joints):
        values = [
            (linear.described[linear.places(t)][k], identified.parameters[linear.places(t)][k]) for t in terms
        ]
        rows.append((joint.name, *(float(x) for pair in values for x in pair)))
    head = ("joint", *(f"{term} {when}" for term in terms for when in ("described", "identified")))
    return (
        "<h2>Joints</h2><p>Rotor inertia kg m², viscous friction N m s/rad, Coulomb friction and offset N m, "
        f"spring N m/rad; for prismatic joints in m and N.</p>{table(head, rows)}"
    )
