"""Forces at contacts: as wrenches on links, and whether the active contacts can hold the robot."""

from typing import NamedTuple

import numpy as np

from dynamics_node.functions import ContactForces, ContactSolver
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
    first, in its axes at its origin, zero without one; limited: the result of a solver with friction cones
    at one state, None for other forces."""

    active: np.ndarray
    forces: np.ndarray
    residual: np.ndarray
    limited: ContactForces | None = None

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
    """The contacts of a robot. rows: their ContactRows; cones: as of ContactFunctions."""

    def __init__(self, model: Robot, functions: ContactFunctions):
        self.rows, self.cones = ContactRows(functions.contacts), functions.cones
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
        if loads.limited is not None and self.cones is not None:
            violated = self.cones.violated(loads.limited)
            return f"least violation: {listed(violated, 6)}" if violated else ""
        moment, force = loads.missing
        if max(moment / LEVER, force) > self._tolerance:
            flags = zip(self.rows.contacts, loads.active, strict=True)
            names = listed(contact.name for contact, active in flags if active) or "none"
            missing = f"{force:.3g} N and {moment:.3g} N m are missing"
            return f"active contacts ({names}) cannot hold the robot at {self._base}: {missing}"
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
    """What a contact with friction would do under its forces (rows,), and by how much, "" if it can give
    them."""
    if contact.friction is None:
        return ""
    components = dict(zip(contact.rows, forces, strict=True))
    x, y, z = (components.get(row, 0.0) for row in ("fx", "fy", "fz"))
    if z < -tolerance:
        return f"pulls with {-z:.3g} N"
    if (excess := np.hypot(x, y) - contact.friction * z) > tolerance:
        return f"slides: {excess:.3g} N are beyond its friction"
    for axis, moment, half in zip("xy", ("my", "mx"), contact.half_lengths or (), strict=False):
        if (excess := abs(components[moment]) - half * z) > half * tolerance:
            return f"tips: {excess:.3g} N m are beyond its edge along {axis}"
    return ""


def within_limits(solver: ContactSolver, *arrays, least: bool, **environment):
    """Torques (nv,) and ContactLoads of a solver with friction cones at q, qd, qdd and active. least: whether
    to return the least violation where no forces keep the limits. Raises InputError and SolutionError."""
    result = solver(*arrays, errors="least" if least else "raise", **environment)
    return result.tau, ContactLoads(arrays[-1], result.contact_forces, result.tau[:6], result)
