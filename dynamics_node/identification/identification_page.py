"""An Identified -> one HTML page that opens from disk: text and SVG, no script, nothing from elsewhere."""

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
    f'<span style="color:{_COLORS["identified"]}">blue identified</span>; below them what is left.</p>'
)
_NOTHING = 1e-12  # of the largest entry: rounding
_MOMENTS = {"xx": (0, 0), "xy": (0, 1), "xz": (0, 2), "yy": (1, 1), "yz": (1, 2), "zz": (2, 2)}


def write_page(found: Identified, path, sources: Iterable[tuple[str, str]] = ()) -> Path:
    """The page at a path, whose folder is made; returns it. Every name of the robot and of its files is
    escaped. sources: (name, what was read) of each recording."""
    return written(_page(found, sources), path)


def _page(found, sources):
    robot = found.linear.robot
    parts = (
        f"<h1>{escape(robot.name)}</h1><p class=quiet>What it is made of, from how it moves.</p>",
        _stages(found, sources),
        _torques(found),
        _open(found),
        _base(found),
        _bodies(found),
        _joints(found),
    )
    return document(f"{robot.name}: identified", _STYLE, parts)


def _stages(found, sources):
    rows = [("read", f"{name}: {told}", True) for name, told in sources]
    cells = "".join(
        f"<tr{'' if good else ' class=odd'}><td>{escape(stage)}</td><td>{escape(told)}</td></tr>"
        for stage, told, good in (*rows, *summary(found))
    )
    return f"<h2>Stages</h2><table><tr><th>stage</th><th>verdict</th></tr>{cells}</table>"


def _torques(found):
    columns = (found.rmse_nominal, found.rmse_fitted, found.rmse_cross_validated, found.solution.spread)
    head = ("joint", "unit", "described", "identified", "unseen", "noise")
    numbers = table(
        head, [(name, unit, *(float(own[k]) for own in columns)) for name, unit, k in found.joints]
    )
    figures = "".join(_figure(found.samples, k, name, unit) for name, unit, k in found.joints)
    return (
        "<h2>Torques</h2><p>Root mean squares of measured less computed torques: of the description, of the "
        "result, of base parameters at data that they have not seen, and what is left as noise"
        f"{f', all of them below {found.cutoff:g} Hz' if found.cutoff else ''}.</p>"
        f"{numbers}{_LEGEND}{figures}{_thinned(found.samples)}"
    )


def _figure(shown, k, name, unit):
    torques = [(color, getattr(shown, kind)[:, k]) for kind, color in _COLORS.items()]
    left = [(color, torques[0][1] - values) for color, values in torques[1:]]
    return (
        f"<figure><figcaption><h3>{escape(name)}</h3></figcaption>"
        f"{panel(shown.time, torques, unit)}{panel(shown.time, left, f'left, {unit}', 110)}</figure>"
    )


def _thinned(shown):
    across = "s, recording after recording" if shown.timed else "rows, or s where they are known"
    drawn = f"; one state in {shown.every} is drawn" if shown.every > 1 else ""
    return f"<p class=quiet>Over {across}{drawn}.</p>"


def _open(found):
    weak, unidentifiable = found.excitation.weak, found.base.unidentifiable
    told = (
        "<p>Combinations that the motion does not excite: they stay near the description.</p>"
        + bullet_list(weak)
        if weak
        else "<p>The motion excites every combination that torques depend on.</p>"
    )
    never = f"<details><summary>{len(unidentifiable)} parameters that no torque depends on</summary><p>"
    return f"<h2>What stays open</h2>{told}{never}{escape(', '.join(unidentifiable) or 'none')}</p></details>"


def _base(found):
    base, solution = found.base, found.solution
    described = base.values(found.linear.described)
    columns = (base.told, described.tolist(), solution.x.tolist(), solution.std.tolist())
    felt = [", ".join(names) if len(names) < 4 else f"{len(names)} joints" for names in base.felt_by]
    rows = zip(*columns, base.values(found.parameters).tolist(), felt, strict=True)
    head = ("combination", "described", "value", "standard deviation", "of the bodies", "felt by")
    return (
        "<h2>Base parameters</h2><p>The combinations that torques depend on, in kg, m, N and s: what least "
        "squares says, and what the bodies come to that fit it best.</p><details open><summary>"
        f"{base.count} combinations</summary>{table(head, rows)}</details>"
    )


def _bodies(found):
    if "inertia" not in found.linear.terms:
        return ""
    place = found.linear.places("inertia")
    before, after = (
        inertias_of_parameters(own[place].reshape(-1, 10))
        for own in (found.linear.described, found.parameters)
    )
    rows = []
    for body, one, other in zip(found.linear.robot.bodies, before, after, strict=True):
        rows += [(body.name, "described", *_numbers(one)), ("", "identified", *_numbers(other))]
    head = ("body", "", "mass", *(f"com {axis}" for axis in "xyz"), *_MOMENTS)
    return (
        "<h2>Bodies</h2><p>A link with all that is fixed to it: mass in kg, centre of mass in m, in the axes "
        f"of the link, moments in kg m² about it.</p>{table(head, rows)}"
    )


def _numbers(inertia):
    mass, moment = mass_and_moment(inertia)
    if not mass > 0:
        return (0.0,) * 10
    moments = central_moments(inertia)
    moments = np.where(np.abs(moments) < _NOTHING * np.abs(moments).max(), 0.0, moments)
    return (float(mass), *(moment / mass).tolist(), *(float(moments[at]) for at in _MOMENTS.values()))


def _joints(found):
    linear = found.linear
    terms = [term for term in TERMS if term in linear.terms and term != "inertia"]
    if not terms:
        return ""
    rows = []
    for k, joint in enumerate(linear.joints):
        values = [
            (linear.described[linear.places(t)][k], found.parameters[linear.places(t)][k]) for t in terms
        ]
        rows.append((joint.name, *(float(x) for pair in values for x in pair)))
    head = ("joint", *(f"{term} {when}" for term in terms for when in ("described", "identified")))
    return (
        "<h2>Joints</h2><p>Rotor inertia kg m², viscous friction N m s/rad, Coulomb friction and offset N m, "
        f"spring N m/rad; of joints that slide in m and N.</p>{table(head, rows)}"
    )
