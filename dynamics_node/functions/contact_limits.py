"""The limits of contact forces and torques: their margins, and words for those that are violated."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_qp import ForceVariables
from dynamics_node.robot import Robot
from dynamics_node.symbolic import Program, trace


class ForceLimit(NamedTuple):
    """A limit: the margin is constant + allowed @ z less the length of use @ z, z (n + nv,) being the forces
    x and the torques, use (2, n + nv). contact: its number, or -1; violated: words for it, with {} for how
    much."""

    name: str
    contact: int
    violated: str
    constant: float
    allowed: np.ndarray
    use: np.ndarray


class ForceLimits:
    """All limits of a robot and its contacts.

    driven (nv,) bool; efforts (nv,): limits of torques, infinite where there is none.
    """

    def __init__(self, robot: Robot, variables: ForceVariables, driven: np.ndarray, efforts: np.ndarray):
        self._variables, self._driven, n = variables, driven, variables.size
        spread = np.pad(variables.spread, ((0, 0), (0, robot.nv)))
        units = robot.torque_units
        limits: list[ForceLimit] = []
        for k, (contact, place) in enumerate(
            zip(variables.contacts, variables.rows.places.values(), strict=True)
        ):
            if contact.friction is not None:
                limits += _of_contact(k, contact, dict(zip(contact.rows, spread[place], strict=True)))
                limits += self._of_corners(k, contact, n + robot.nv)
        for v in np.flatnonzero(driven & np.isfinite(efforts)):
            unit, name = np.eye(n + robot.nv)[n + v], robot.v_names[v]
            words = f"joint {name!r} needs {{}} {units[v]} more than its limit of {efforts[v]:.4g}"
            limits.append(
                ForceLimit(f"{name}.effort", -1, words, efforts[v], 0.0 * unit, np.array([unit, 0.0 * unit]))
            )
        self.limits = tuple(limits)
        self.names = tuple(limit.name for limit in limits)
        self.contacts = np.array([limit.contact for limit in limits], dtype=int)

    def _of_corners(self, k, contact, size):
        v, found = self._variables, []
        if contact.half_lengths is None:
            return []
        for corner, j in enumerate(np.flatnonzero(v.cone_contact == k)):
            allowed, use = np.zeros(size), np.zeros((2, size))
            allowed[v.normals[j]] = v.friction[j]
            use[[0, 1], v.tangents[j]] = 1.0
            words = f"contact {contact.name!r} slips: {{}} N at corner {corner + 1}"
            found.append(ForceLimit(f"{contact.name}.friction_{corner + 1}", k, words, 0.0, allowed, use))
        return found

    def used(self, x, tau):
        """What is allowed and the square of what is used, both (limits,), of symbols."""
        z = np.concatenate([x, tau])
        parts = [[row @ z for row in limit.use] for limit in self.limits]
        allowed = [limit.constant + limit.allowed @ z for limit in self.limits]
        return np.array(allowed), np.array([a * a + b * b for a, b in parts])

    def program(self) -> Program:
        """The Program that judges a solution x (n,) of the program of `contact_qp_program`.

        Returns tau (nv,), contact_forces (rows,), allowed (limits,) and squares of use (limits,), and slack:
        the distances from all bounds.
        """
        v, nv = self._variables, len(self._driven)
        n, k, equations = v.size, v.nnormals, nv + len(v.wedges)
        shapes = {"tau0": (nv,), "A": (equations, n), "x": (n,)}

        def function(tau0, A, x, lower, upper):
            provided = A @ x
            values, tau = np.concatenate([x[:k], provided]), tau0 - provided[:nv]
            allowed, use = self.used(x, tau)
            return {
                "tau": tau,
                "contact_forces": v.spread @ x,
                "allowed": allowed,
                "use": use,
                "slack": np.concatenate([upper - values, values - lower]),
            }

        return trace(function, {**shapes, "lower": (k + equations,), "upper": (k + equations,)})

    def margins(self, allowed, use, active):
        """(..., limits), of the results of the Program; active (..., contacts), or None for all."""
        margins = allowed - np.sqrt(use)
        if active is not None:
            known = np.concatenate([active, np.ones((*active.shape[:-1], 1))], axis=-1)
            margins = np.where(known[..., self.contacts] > 0.0, margins, np.inf)
        return margins

    def violated(self, margins, tolerance):
        """Words for the violated limits of one state, the worst first, equal ones as their contacts."""
        order = np.argsort(np.round(margins / tolerance), kind="stable")
        return [
            self.limits[k].violated.format(f"{-margins[k]:.3g}") for k in order if margins[k] < -tolerance
        ]


def _of_contact(k, contact, force):
    """The limits of a contact with friction. force: {row: (n + nv,)}."""
    zero, name = np.zeros_like(force["fz"]), contact.name
    normal = force["fz"]
    pulls = f"contact {name!r} lifts: it would have to pull with {{}} N"
    slips = f"contact {name!r} slips: {{}} N are beyond its friction"
    found = [
        ForceLimit(f"{name}.normal", k, pulls, 0.0, normal, np.array([zero, zero])),
        ForceLimit(
            f"{name}.friction",
            k,
            slips,
            0.0,
            contact.friction * normal,
            np.array([force.get("fx", zero), force.get("fy", zero)]),
        ),
    ]
    if contact.half_lengths is not None:
        for axis, moment, half in zip("xy", ("my", "mx"), contact.half_lengths, strict=True):
            tips = f"contact {name!r} tips: {{}} N m are beyond its edge along {axis}"
            use = np.array([force[moment], zero])
            found.append(ForceLimit(f"{name}.edge_{axis}", k, tips, 0.0, half * normal, use))
    return found
