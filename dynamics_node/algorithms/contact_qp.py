"""The smallest contact forces and torques as a quadratic program (QP), whose arrays one Program computes.

The variables x (n,) are forces: of a point or wheel along its axes, of a surface with friction and half
lengths those at its four corners. Every wrench that a rigid face with Coulomb friction transmits is a sum of
forces at its corners, each in the cone of friction, so the limits are exact (Caron, Pham and Nakamura 2015).

Minimize x^T H x / 2 + f^T x with lower <= (x of the normals, A x) <= upper and the cones of friction. The
first nv entries of A x are the torques that the forces provide: tau = tau0 - (A x)[:nv].
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.aba import columns, forward_clusters, inward
from dynamics_node.algorithms.contact_dynamics import USUAL_LENGTH, PlacedContacts
from dynamics_node.algorithms.contact_equations import contact_equations
from dynamics_node.algorithms.force_propagation import forces_at_joints
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.quantity_methods import inverse_dynamics
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot import Robot, state_shapes
from dynamics_node.robot.contacts import Contact, ContactRows
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Program

UNBOUNDED = 1e30  # a bound that solvers of QPs take as none
_CORNERS = np.array([(1, 1, 0), (1, -1, 0), (-1, -1, 0), (-1, 1, 0)])


class _Block(NamedTuple):
    """Some variables of a contact: how they add to its rows, columns (rows of the contact, k), the unit of
    each (k,), and whether the last one is the normal force of a friction cone with the others."""

    columns: np.ndarray
    units: np.ndarray
    grips: bool


class ForceVariables:
    """The variables x (n,) of the forces of contacts; the normals (k,) of unilateral ones come first.

    spread (rows, n): the contact forces are spread @ x. contact (n,): number of the contact of each variable.
    units (n,): 1, or for a moment the length that makes it comparable with a force, m. cones: tangents
    (cones, 2), normals (cones,), friction (cones,): x[normals] friction >= |x[tangents]|. wedges (m, n):
    rows with wedges @ x <= 0, the same for rollers, which have one tangent.
    """

    def __init__(self, contacts: Iterable[Contact]):
        self.contacts = tuple(contacts)
        self.rows = ContactRows(self.contacts)
        blocks = [(k, block) for k, contact in enumerate(self.contacts) for block in _blocks(contact)]
        sizes = [block.columns.shape[1] for _, block in blocks]
        starts = np.cumsum([0, *sizes])
        ends = [end - 1 for end, (_, block) in zip(starts[1:], blocks, strict=True) if block.grips]
        order = [*ends, *(j for j in range(starts[-1]) if j not in ends)]
        place = np.argsort(order)
        self.size, self.nnormals = len(order), len(ends)
        self.contact = np.repeat([k for k, _ in blocks], sizes)[order].astype(int)
        self.units = np.concatenate([np.zeros(0), *(block.units for _, block in blocks)])[order]
        self.spread = np.zeros((len(self.rows.names), self.size))
        slices, cones, wedges = list(self.rows.places.values()), [], []
        for (k, block), start in zip(blocks, starts, strict=False):
            own = place[start : start + block.columns.shape[1]]
            self.spread[slices[k], own] = block.columns
            if block.grips and len(own) == 3:
                cones.append((k, *own))
            elif block.grips and len(own) == 2:
                wedges += [(k, own, sign) for sign in (1.0, -1.0)]
        found = np.array(cones, dtype=int).reshape(-1, 4)
        self.cone_contact, self.tangents, self.normals = found[:, 0], found[:, 1:3], found[:, 3]
        self.friction = np.array([self.contacts[k].friction for k in self.cone_contact], dtype=float)
        self.wedges = np.zeros((len(wedges), self.size))
        for row, (k, own, sign) in zip(self.wedges, wedges, strict=True):
            row[own] = sign, -self.contacts[k].friction  # type: ignore[operator]

    def costs(self, force_weights):
        """(n,), given the force_weights (contacts,): of squares of x / 2."""
        return np.asarray(force_weights)[self.contact] / self.units**2

    def __repr__(self):
        return f"ForceVariables({self.size} of {len(self.contacts)} contacts)"


def _blocks(contact) -> list[_Block]:
    """The _Blocks of a contact. Without friction, a normal force is alone."""
    unit, forces = np.eye(len(contact.rows)), slice(-3 if contact.roller is None else -2, None)
    lengths = np.full(len(unit), 1.0)
    if contact.kind == "surface":
        lengths[:3] = np.mean(contact.half_lengths or USUAL_LENGTH)
    if contact.friction is None:
        return [_Block(unit, lengths, False)]
    if not contact.friction:
        forces = slice(-1, None)
    if contact.kind != "surface":
        return [_Block(unit[:, forces], lengths[forces], True)]
    if contact.half_lengths is None:
        free = slice(3 if contact.friction else 2)
        return [_Block(unit[:, free], lengths[free], False), _Block(unit[:, forces], lengths[forces], True)]
    arms = _CORNERS * [*contact.half_lengths, 0.0]
    corners = [np.concatenate([np.cross(arm, np.eye(3)).T, np.eye(3)]) for arm in arms]
    return [_Block(corner[:, forces], np.ones(3)[forces], True) for corner in corners]


def contact_qp_program(
    robot: Robot,
    variables: ForceVariables,
    driven,
    force_weights,
    torque_weights,
    efforts,
    wrenches=False,
    parameters=(),
) -> Program:
    """The Program of the QP.

    driven (nv,) bool: coordinates with a motor, others have torque zero. force_weights (contacts,), above 0,
    torque_weights (nv,): the cost is half the sum of weight times square over x, moments by their `units`,
    and over torques. efforts (nv,): limits of torques. parameters: those of a robot that are inputs. Reads q,
    qd, qdd, active (contacts,) of 0 and 1, f_ext if there are `wrenches`, and gravity. Returns tau0 (nv,), H
    (n, n), f (n,), A (nv + wedges, n), lower and upper (normals + nv + wedges,). Forces of inactive contacts
    move nothing and cost, so they are zero.
    """
    weights = np.where(driven, torque_weights, 0.0)
    costs = np.diag(variables.costs(force_weights))
    slack = np.where(driven, efforts, 0.0)
    ahead = np.zeros(variables.nnormals)

    def function(tau0, A):
        scaled = A * weights[:, None]
        bounded = np.isfinite(slack)
        none = np.full(len(variables.wedges), UNBOUNDED)
        results = {
            "tau0": tau0,
            "H": variables.spread.T @ (scaled.T @ A) @ variables.spread + costs,
            "f": -(tau0 @ scaled) @ variables.spread,
            "A": np.concatenate([A @ variables.spread, variables.wedges]),
            "lower": np.concatenate([ahead, np.where(bounded, tau0 - slack, -UNBOUNDED), -none]),
            "upper": np.concatenate(
                [ahead + UNBOUNDED, np.where(bounded, tau0 + slack, UNBOUNDED), np.zeros(len(none))]
            ),
        }
        return results, np.zeros(0)

    return program_of_torques(robot, variables, function, 0, wrenches, parameters)


def program_of_torques(robot, variables, function, checks, wrenches, parameters):
    """The Program of function(tau0 (nv,), A (nv, rows)) -> results, health (checks,), which exceeds zero at
    states without results. A: the torques by contact forces."""
    names = ("q", "qd", "qdd", *(("f_ext",) if wrenches else ()), "gravity")
    reads = state_shapes(robot, names)
    reads = {**{name: reads[name] for name in names[:3]}, "active": (len(variables.contacts),), **reads}
    limits = [*health_limits(robot), LEANING, *[0.0] * checks]

    def traced(own, q, qd, qdd, active, gravity, f_ext=None):
        rates = rates_at(own, q, qd, explicit=True)
        tau0 = inverse_dynamics(own, rates, q, qdd, f_ext, gravity)
        A, invalid = torques_by_forces(own, rates, q, variables.contacts, active)
        results, checked = function(tau0, A)
        watched = np.concatenate([health(own, q, rates), invalid, checked])
        return results | {"health": watched}

    return economical_program(robot, reads, traced, parameters, limits)


def torques_by_forces(robot, rates, q, contacts, active):
    """(nv, rows): the transposed Jacobian of the contacts, with zeros for those that are not active; and
    `PlacedContacts.invalid`."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    still, zero = np.zeros((tree.nbodies, 6)), np.zeros(tree.nv)
    known = forward_clusters(robot, np.zeros(robot.nv, dtype=bool))
    solutions = inward(robot, X_up, rates.G, still, zero, np.zeros(robot.nv), known)
    touch = PlacedContacts(contacts, contact_equations(tree, X_up, contacts), active)
    forces = forces_at_joints(robot, X_up, solutions, touch.wrenches(), touch.sizes)
    F = np.zeros((robot.nv, sum(touch.sizes)), dtype=object)
    for at, own in zip(columns(robot), forces, strict=True):
        F[at] = own
    parts = zip(touch.equations, np.split(F, np.cumsum(touch.sizes)[:-1], axis=1), strict=True)
    turned = [part if e.turn is None else part @ e.turn.T for e, part in parts]
    return np.concatenate(turned, axis=1) * touch.active, touch.invalid()
