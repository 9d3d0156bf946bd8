"""Twelve typical errors of inertias: how each is made and reversed; the nearest consistent inertia.

Tests and benchmarks plant faults and the diagnosis reverses them. Both change MassProperties; `undo` returns
one candidate for every variant of the fault.
"""

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.doctor.evidence import MassProperties, is_inconsistent, second_moments


class Fault(NamedTuple):
    """name; symptom: the problem; advice: the remedy. plant: (MassProperties, random) -> MassProperties;
    undo: MassProperties -> list of candidates. surprise: negative log prior odds. If undo is None, the
    numbers alone reveal the fault (see diagnosis.py)."""

    name: str
    symptom: str
    advice: str
    plant: Callable
    undo: Callable | None
    surprise: float = 2.0


def about(inertial, point):
    """Inertia (3, 3) about a point (3,) instead of the center of mass: parallel axis theorem."""
    d = inertial.com - point
    return inertial.inertia + inertial.mass * ((d @ d) * np.eye(3) - np.outer(d, d))


def _mass_times(factor):
    return lambda link, random=None: link._replace(mass=link.mass * factor)


def _com_times(factor):
    return lambda link, random=None: link._replace(com=link.com * factor)


def _inertia_times(factor):
    return lambda link, random=None: link._replace(inertia=link.inertia * factor)


def _one(change):
    return lambda link: [change(link)]


PERMUTED = [np.eye(3)[list(order)] for order in permutations(range(3))][1:]


def _rotated(link, turn):
    return link._replace(inertia=turn @ link.inertia @ turn.T)


def _plant_rotated(link, random):
    return max((_rotated(link, turn) for turn in PERMUTED), key=lambda turned: _moved(turned, link))


def _moved(one, other):
    return np.linalg.norm(one.inertia - other.inertia)


def _products_negated(link, random=None):
    return link._replace(inertia=2 * np.diag(np.diag(link.inertia)) - link.inertia)


def _com_mirrored(link, axis):
    signs = np.where(np.arange(3) == axis, -1.0, 1.0)
    return link._replace(com=signs * link.com)


def _plant_mirrored(link, random):
    return _com_mirrored(link, int(np.abs(link.com).argmax()))


def _plant_about_origin(link, random):
    return link._replace(inertia=about(link, np.zeros(3)))


def _undo_about_origin(link):
    return [link._replace(inertia=2 * link.inertia - about(link, np.zeros(3)))]


def _slipped(link, axis, factor):
    inertia = np.array(link.inertia)
    inertia[axis, axis] *= factor
    return link._replace(inertia=inertia)


def _plant_slipped(link, random):
    return _slipped(link, int(random.integers(3)), 10.0)


def _plant_default(link, random):
    return MassProperties(np.array(1.0), np.zeros(3), np.eye(3))


def _plant_massless(link, random):
    return MassProperties(np.array(0.0), np.zeros(3), np.zeros((3, 3)))


UNITS = 5.0  # errors by a factor of a thousand need no high prior probability
SWAPPED, DEFAULT, MASSLESS = "swapped", "default", "massless"
_CAD = "export it again, or let the CAD program write its mass properties in kg, m, kg m^2"

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("com in mm", "its center of mass is a thousand times too far away, as if written in mm",
              "write <inertial><origin xyz> in m", _com_times(1e3), _one(_com_times(1e-3)), UNITS),
        Fault("mass in g", "its mass is a thousand times too large, as if written in g",
              "write <mass> in kg", _mass_times(1e3), _one(_mass_times(1e-3)), UNITS),
        Fault("inertia in kg mm^2", "its inertia is a million times too large, as if the mesh were in mm",
              _CAD, _inertia_times(1e6), _one(_inertia_times(1e-6)), UNITS),
        Fault("inertia in g mm^2", "its inertia is 1e9 times too large, as if written in g mm^2",
              _CAD, _inertia_times(1e9), _one(_inertia_times(1e-9)), UNITS),
        Fault("rotated axes", "its inertia is not expressed in link axes",
              "rotate it, or set <inertial><origin rpy> to its axes",
              _plant_rotated, lambda link: [_rotated(link, turn) for turn in PERMUTED]),
        Fault("products mirrored", "its products of inertia have the opposite sign",
              "URDF has ixy = -integral of x y dm: change the signs of ixy, ixz and iyz",
              _products_negated, _one(_products_negated), 1.0),
        Fault("com mirrored", "its center of mass is mirrored",
              "change the sign of that component of <inertial><origin xyz>",
              _plant_mirrored, lambda link: [_com_mirrored(link, axis) for axis in range(3)]),
        Fault("not about com", "its inertia is about the link's origin, not about the center of mass",
              "subtract m (|c|^2 1 - c c^T): URDF expects it about the center of mass",
              _plant_about_origin, _undo_about_origin, 1.0),
        Fault("decimal point", "one of its moments is ten times too large or too small",
              "check the decimal points of ixx, iyy and izz",
              _plant_slipped,
              lambda link: [_slipped(link, axis, x) for axis in range(3) for x in (0.1, 10.0)]),
        Fault(SWAPPED, "it has the inertia of another link", "exchange both <inertial> elements",
              lambda link, random: link, None),
        Fault(DEFAULT, "its inertia is a copied default", _CAD, _plant_default, None),
        Fault(MASSLESS, "it moves and has no mass", "give it its mass and inertia, or fix its joint",
              _plant_massless, None),
    )
}  # fmt: skip


FLAT = 1e-3  # fraction of the largest mean square: lower bound of the others


def nearest_consistent(inertial) -> MassProperties:
    """MassProperties with the same mass and center and the nearest positive definite second moments in the
    Frobenius norm: eigenvalues below FLAT of the largest one are raised. Requires a mass above 0."""
    squares, axes = np.linalg.eigh(second_moments(inertial))
    raised = np.maximum(squares, FLAT * max(squares.max(), 1e-300))
    spread = inertial.mass * (axes * raised) @ axes.T
    return inertial._replace(inertia=np.trace(spread) * np.eye(3) - spread)


def repairs(links):
    """{link: MassProperties} of the LinkFacts whose inertia is physically inconsistent."""
    return {
        link.name: nearest_consistent(link.inertial)
        for link in links
        if link.inertial.mass > 0 and link.inertial.inertia.any() and is_inconsistent(link.inertial)
    }
