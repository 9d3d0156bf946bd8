"""Forces at contacts: as wrenches on links, and whether the active contacts can hold the robot."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.building.build_job import ContactFunctions
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, ContactRows
from dynamics_node.text import listed

TOLERANCE = 0.01  # of the weight: a larger residual, or force outside of friction, is reported
LEVER = 1.0  # m; a moment of the weight at this lever counts as the weight
STANDARD_GRAVITY = 9.81  # m/s^2
AXES = ("mx", "my", "mz", "fx", "fy", "fz")  # of a wrench


class ContactLoads(NamedTuple):
    """Results at the contacts. active (contacts,): flags; forces (rows,): of the environment on the links, in
    the axes of the contacts; residual (6,): wrench on the floating base that contacts do not give, moment
    first, in its axes at its origin, zero without one."""

    active: np.ndarray
    forces: np.ndarray
    residual: np.ndarray

    @property
    def missing(self) -> tuple[float, float]:
        """Magnitudes of the residual, N m and N."""
        moment, force = self.residual[:3], self.residual[3:]
        return float(np.sqrt(moment @ moment)), float(np.sqrt(force @ force))


class ContactWrench(NamedTuple):
    """A wrench (6,) on a link, moment first: in the axes of the link at its origin, and in the axes of the
    contact at its origin."""

    contact: str
    link: str
    on_link: np.ndarray
    components: np.ndarray


class ContactMap:
    """The contacts of a robot. rows: their ContactRows."""

    def __init__(self, model: Robot, functions: ContactFunctions):
        self.rows = ContactRows(functions.contacts)
        self._places = [self.rows.places[contact.name] for contact in functions.contacts]
        self._functions, self._base = functions, model.tree.bodies[0].name
        self._tolerance = TOLERANCE * model.mass * STANDARD_GRAVITY

    def wrenches(self, q, forces) -> list[ContactWrench]:
        """One for each contact at a position (nq,)."""
        rows = zip(self.rows.contacts, self._places, self._functions.wrenches(q, forces), strict=True)
        return [
            ContactWrench(contact.name, contact.link, on_link, _components(contact, forces[place]))
            for contact, place, on_link in rows
        ]

    def trouble(self, loads: ContactLoads) -> str:
        """Why the active contacts cannot hold the robot, "" if they can."""
        moment, force = loads.missing
        if max(moment / LEVER, force) > self._tolerance:
            flags = zip(self.rows.contacts, loads.active, strict=True)
            names = listed(contact.name for contact, active in flags if active) or "none"
            return f"active contacts ({names}) cannot hold the robot at {self._base}"
        rows = zip(self.rows.contacts, self._places, strict=True)
        beyond = [
            f"{c.name} {what}" for c, at in rows if (what := _violation(c, loads.forces[at], self._tolerance))
        ]
        return f"forces at contacts that they cannot give: {listed(beyond)}" if beyond else ""


def _components(contact: Contact, forces):
    """The wrench (6,), moment first, of forces along the rows of a contact."""
    components = np.zeros(6)
    components[[AXES.index(row) for row in contact.rows]] = forces
    return components


def _violation(contact: Contact, forces, tolerance) -> str:
    """What a contact with friction would do under its forces (rows,), "" if it can give them."""
    if contact.friction is None:
        return ""
    components = dict(zip(contact.rows, forces, strict=True))
    x, y, z = (components.get(row, 0.0) for row in ("fx", "fy", "fz"))
    if z < -tolerance:
        return "pulls"
    if np.hypot(x, y) > contact.friction * z + tolerance:
        return "slides"
    if contact.half_lengths is not None:
        along_x, along_y = np.array(contact.half_lengths) * (z + tolerance)
        if abs(components["mx"]) > along_y or abs(components["my"]) > along_x:
            return "tips"
    return ""
