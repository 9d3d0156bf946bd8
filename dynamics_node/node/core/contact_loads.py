"""Forces at contacts: as wrenches on links, and whether the active contacts can hold the robot."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_equations import axes_of_normal
from dynamics_node.node.building.build_job import ContactFunctions
from dynamics_node.node.state.active_contacts import links_with_axes
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, ContactRows
from dynamics_node.symbolic import rpy_rotation
from dynamics_node.text import listed

TOLERANCE = 0.01  # of the weight: a larger residual, or force outside of friction, is reported
LEVER = 1.0  # m; a moment of the weight at this lever counts as the weight
STANDARD_GRAVITY = 9.81  # m/s^2


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
        self._poses, self._base = functions.poses, model.tree.bodies[0].name
        self._tolerance = TOLERANCE * model.mass * STANDARD_GRAVITY

    def wrenches(self, q, forces) -> list[ContactWrench]:
        """One for each contact at a position (nq,)."""
        rotations = self._rotations(q)
        rows = zip(self.rows.contacts, self._places, strict=True)
        return [_on_link(contact, forces[place], rotations) for contact, place in rows]

    def _rotations(self, q):
        """{link: rotation (3, 3) from its axes to those of the world} of the links of points."""
        if self._poses is None:
            return {}
        return dict(zip(links_with_axes(self.rows.contacts), self._poses(q).rotations, strict=True))

    def trouble(self, loads: ContactLoads) -> str:
        """Why the active contacts cannot hold the robot, "" if they can."""
        moment, force = loads.missing
        if max(moment / LEVER, force) > self._tolerance:
            flags = zip(self.rows.contacts, loads.active, strict=True)
            names = listed(contact.name for contact, active in flags if active) or "none"
            return f"active contacts ({names}) cannot hold the robot at {self._base}"
        rows = zip(self.rows.contacts, self._places, strict=True)
        beyond = [
            f"{c.name} {what}" for c, at in rows if (what := _beyond(c, loads.forces[at], self._tolerance))
        ]
        return f"forces at contacts that they cannot give: {listed(beyond)}" if beyond else ""


def _on_link(contact: Contact, forces, rotations) -> ContactWrench:
    """The ContactWrench of forces along the rows of a contact; rotations as of ContactMap."""
    components = np.zeros(6)
    components[-len(forces) :] = forces
    turn = rpy_rotation(contact.rpy)
    if contact.kind == "point":
        other = rotations[contact.other] if contact.other else np.eye(3)
        turn = rotations[contact.link].T @ other @ axes_of_normal(contact.normal).T
    moment, force = turn @ components[:3], turn @ components[3:]
    return ContactWrench(
        contact.name,
        contact.link,
        np.concatenate([moment + np.cross(contact.xyz, force), force]),
        components,
    )


def _beyond(contact: Contact, forces, tolerance) -> str:
    """What a contact with friction would do under its forces (rows,), "" if it can give them."""
    if contact.friction is None:
        return ""
    *moments, x, y, z = forces
    if z < -tolerance:
        return "pulls"
    if np.hypot(x, y) > contact.friction * z + tolerance:
        return "slides"
    if moments and contact.half_lengths is not None:
        (mx, my, _), (along_x, along_y) = moments, contact.half_lengths
        if abs(mx) > along_y * (z + tolerance) or abs(my) > along_x * (z + tolerance):
            return "tips"
    return ""
