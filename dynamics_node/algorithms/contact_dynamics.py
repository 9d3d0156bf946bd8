"""Forward, inverse and hybrid dynamics with contacts, one state on symbols. Which contacts are active is an
input: one Program serves all sets.

Forward and hybrid dynamics, forces last: unit forces of the contacts propagate to the root through the
articulated bodies (algorithms/force_propagation.py). With F (d, rows) the forces at the free joints, A = sum
F^T D^-1 F is the Delassus matrix, and b + A lambda is the acceleration of the contacts. With s = 1 at active
contacts and 0 at others, the rows s (b + A lambda - a) + (1 - s) lambda = 0 determine lambda. It acts at the
joints as F lambda, so that the outward sweep of the articulated-body algorithm is needed once.

Inverse dynamics: accelerations are known everywhere, also that of a floating base, which has no motor. The
shortest forces of active contacts produce the wrench that its motion needs.

Redundant contacts have many forces: see `shortest_solution`. Contradictory accelerations are met by least
squares.

Featherstone, RBDA, chapter 8. Carpentier, Budhiraja and Mansard 2021, Proximal and sparse resolution of
constrained dynamic equations.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.aba import accelerations_and_torques, columns, forward_clusters, inward
from dynamics_node.algorithms.contact_equations import accelerations_along, contact_equations
from dynamics_node.algorithms.force_propagation import apparent_matrix, forces_at_joints
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.algorithms.solution_by_branches import Factors, factors, solution
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Expression, symmetric
from dynamics_node.text import listed

REDUNDANT = 2.0**-30  # relative to the mean of the diagonal of a matrix: less in a direction counts as zero
SMALL = 1e-9  # 1/kg; contacts that move less, such as two links held to each other, count as at rest
UNCLEAR = 1e-10  # limit of `health`: above, a direction is neither redundant nor regular
CONTACT_LIMITS = (UNCLEAR, LEANING)
FORCES_LAST = "contact forces last"  # the readable name
USUAL_LENGTH = 0.1  # m; a moment of 1 N m at a surface without half lengths counts as 10 N


def contact_dynamics(
    robot, rates, q, known, f_ext, gravity, active, accelerations, *, contacts, forward, inverse
):
    """Unknowns (nv,), contact forces (rows,), and health (2,), with the limits CONTACT_LIMITS.

    known (nv,): tau where `forward` (nv,) bool is true, qdd elsewhere; the unknowns are the other one of the
    two. active (contacts,): 0 or 1; accelerations (rows,) of active contacts; contacts: records; inverse:
    whether all accelerations are known. rates: explicit. f_ext, gravity as in `rnea`.
    """
    tree, zero = robot.tree, np.zeros(robot.nv)
    tau, prescribed = np.where(forward, known, zero), np.where(forward, zero, known)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(prescribed)
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    pA = body_wrenches(tree, motions) - (0.0 if f_ext is None else f_ext)
    solutions = inward(robot, X_up, rates.G, pA, changes, tau, forward_clusters(robot, forward))
    touch = PlacedContacts(contacts, contact_equations(tree, X_up, contacts), active)
    forces = forces_at_joints(robot, X_up, solutions, touch.wrenches(), touch.sizes)
    if inverse:
        components, health = _of_floating_bases(robot, solutions, forces, touch)
    else:
        free = accelerations_along(tree, X_up, motions, rates.qd, gravity, touch.equations)
        b = free - touch.along_equations(accelerations)
        components, health = _of_stuck_contacts(solutions, forces, b, touch)
    solutions = [loaded(given, F @ components) for given, F in zip(solutions, forces, strict=True)]
    qdd, torques = accelerations_and_torques(robot, X_up, solutions, tau, prescribed)
    health = np.concatenate([health, touch.invalid()])
    return np.where(forward, qdd, torques), touch.along_axes(components), health


def impact_dynamics(robot, rates, q, active, restitution, contacts):
    """qd (nv,) after an impact, impulses (rows,) and health (1,): see results.ImpactDynamics.

    rates: explicit, before the impact; active, restitution (contacts,)."""
    X_up, solutions = _free(robot, rates, q)
    touch = PlacedContacts(contacts, contact_equations(robot.tree, X_up, contacts), active)
    forces = forces_at_joints(robot, X_up, solutions, touch.wrenches(), touch.sizes)
    velocities = outward(robot.tree, X_up, joint_motions(robot.tree, rates.qd))
    along = [sum(P.T @ velocities[body] for body, P in e.sides) for e in touch.equations]
    normal = np.array([row == "fz" for contact in contacts for row in contact.rows])
    back = np.where(normal, 1.0 + np.repeat(restitution, touch.sizes), 1.0)
    b = touch.along_equations(back * touch.along_axes(np.concatenate(along)))
    components, health = _of_stuck_contacts(solutions, forces, b, touch)
    solutions = [loaded(given, F @ components) for given, F in zip(solutions, forces, strict=True)]
    still = np.zeros(robot.nv, dtype=object)
    changes, _ = accelerations_and_torques(robot, X_up, solutions, still, still)
    health = health + touch.invalid() * (UNCLEAR / LEANING)
    return rates.qd[robot.independent] + changes, touch.along_axes(components), health


def delassus_matrix(robot, rates, q, contacts):
    """J M^-1 J^T (rows, rows) and J (rows, nv) of contacts, in their axes, and how far wheels lean (1,).

    rates: explicit."""
    X_up, solutions = _free(robot, rates, q)
    equations = contact_equations(robot.tree, X_up, contacts)
    touch = PlacedContacts(contacts, equations, np.ones(len(contacts)))

    def wrenches():
        return [{body: P if e.turn is None else P @ e.turn.T for body, P in e.sides} for e in equations]

    A = apparent_matrix(solutions, forces_at_joints(robot, X_up, solutions, wrenches(), touch.sizes))
    rigid = [given._replace(D=None) for given in solutions]  # absorb nothing
    J = np.zeros((len(A), robot.nv), dtype=object)
    forces = forces_at_joints(robot, X_up, rigid, wrenches(), touch.sizes)
    for at, force in zip(columns(robot), forces, strict=True):
        J[:, at] = force.T
    return symmetric(A), J, touch.invalid()


def _free(robot, rates, q):
    """X_up, and the ClusterSolutions without forces and velocities."""
    tree, rest = robot.tree, np.zeros(robot.nv)
    X_up, still = joint_transforms(tree, q), np.zeros((tree.nbodies, 6))
    free = [True] * len(robot.clusters)
    return X_up, inward(robot, X_up, rates.G, still, np.zeros(tree.nv), rest, free)


def loaded(given, force):
    """The ClusterSolution with more force (d,) at its joints."""
    return given._replace(u=given.u - force if given.D is None else given.u + force)


def touch_at(tree, q, contacts, active):
    """The PlacedContacts of contacts at a position q (nq,)."""
    return PlacedContacts(contacts, contact_equations(tree, joint_transforms(tree, q), contacts), active)


def row_units(contacts):
    """(rows,): N and N m that count alike for the shortest forces."""
    lengths = [np.mean(contact.half_lengths or USUAL_LENGTH) for contact in contacts]
    rows = zip(contacts, lengths, strict=True)
    return np.array([size if row[0] == "m" else 1.0 for contact, size in rows for row in contact.rows])


class PlacedContacts:
    """Contacts at a state: their ContactEquations, which are active, and the units of their rows."""

    def __init__(self, contacts, equations, active):
        self.equations, self.sizes = equations, [equation.size for equation in equations]
        self.contacts_active, self.active = active, np.repeat(active, self.sizes)
        self.units = row_units(contacts)

    def invalid(self):
        """(1,), above LEANING where a flag is neither 0 nor 1, or an active wheel leans too much."""
        s = np.asarray(self.contacts_active)
        off = s - s * s
        return np.array([off @ off + s @ [equation.leaning() for equation in self.equations]], dtype=object)

    def wrenches(self):
        """For every contact {body: (6, rows)}: the wrenches by unit forces."""
        return [dict(equation.sides) for equation in self.equations]

    def along_equations(self, components):
        return self._each("inward", components)

    def along_axes(self, components):
        return self._each("outward", components)

    def _each(self, way, components):
        parts = np.split(components, np.cumsum(self.sizes)[:-1])
        return np.concatenate([getattr(e, way)(part) for e, part in zip(self.equations, parts, strict=True)])


def _of_stuck_contacts(solutions, forces, b, touch):
    """The components lambda of the forces that stop the accelerations b (rows,) of active contacts, and
    health (1,)."""
    free = [given.u for given in solutions]
    products = apparent_matrix(solutions, forces, free)
    scale = touch.units
    A = scale[:, None] * products[:-1, :-1] * scale
    b = scale * (b + products[:-1, -1])
    s, size = touch.active, np.trace(A) * (1.0 / len(A)) + SMALL
    A = s[:, None] * A * s + np.diag((1.0 - s) * size)
    lambdas, health = shortest_solution(A, -s * b, size)
    return scale * lambdas, health


def _of_floating_bases(robot, solutions, forces, touch):
    """The shortest components lambda of active contacts that hold the floating bases, and health (1,)."""
    bases = _floating_bases(robot)
    if not bases:
        return np.zeros(len(touch.active)), np.zeros(1)
    scale = touch.units * touch.active
    F = np.concatenate([forces[k] for k in bases]) * scale
    A = F @ F.T
    y, health = shortest_solution(A, np.concatenate([solutions[k].u for k in bases]), np.trace(A) + 1e-3)
    return scale * (F.T @ y), health


def _floating_bases(robot):
    """Numbers of the clusters of floating bases."""
    return [
        k
        for k, cluster in enumerate(robot.clusters)
        if any(robot.bodies[i].joint.type.is_free and robot.tree.parents[i] < 0 for i in cluster.bodies)
    ]


def base_coordinates(robot):
    """Indices in qd of the floating bases."""
    own = columns(robot)
    return np.concatenate([np.arange(robot.nv)[own[k]] for k in _floating_bases(robot)] or [np.zeros(0, int)])


# --- matrices that may be singular --------------------------------------------------------------------------


class Damped(NamedTuple):
    """S = A + r, factored, of a symmetric matrix A (n, n) that is not negative."""

    factored: Factors
    r: Any

    def redundant_part(self, x):
        """T x = r S^-1 x (n,): T is 0 in regular directions of A, to r, and 1 in redundant ones."""
        return -self.r * solution(x, *self.factored)

    def shortest(self, right):
        """The shortest least-squares solution x (n,) of A x = right.

        A factor 1 - T removes the redundant part of the right-hand side before S^-1 enlarges it, and two more
        what rounding left. Then 1 + 4 T + 10 T^2 corrects the regular part to 20 T^3.
        """
        x = -solution(right - self.redundant_part(right), *self.factored)
        for _ in range(2):
            x = x - self.redundant_part(x)
        small = self.redundant_part(x)
        return x + 4.0 * small + 10.0 * self.redundant_part(small)


def damped(A, size) -> Damped:
    """size: mean of the diagonal of A, not negative; zero if no force moves anything at any position."""
    r = REDUNDANT * (size if isinstance(size, Expression) or size > 0.0 else 1.0)
    return Damped(factors(A + r * np.eye(len(A))), r)


def shortest_solution(A, right, size):
    """`shortest`, and `clarity`."""
    of = damped(A, size)
    return of.shortest(right), clarity(of)


def clarity(of: Damped):
    """The health (1,) of solutions, which measures by a fixed vector v what is neither redundant nor regular:
    |(T - T^2) v|^2."""
    v = of.redundant_part(fixed_vector(len(of.factored.L)))
    unclear = v - of.redundant_part(v)
    return np.array([unclear @ unclear])


def why_no_forces(tree, contacts, q, active, more=""):
    """Why contacts have no result at one of the positions q (..., nq of the tree), in words; active (...,
    contacts); more: words about the active contacts."""
    for one, on in _pairs(q, active):
        if wheel := leaning_wheel(tree, contacts, one, on):
            return wheel
    names = listed([contact.name for contact, s in zip(contacts, on, strict=True) if s], 40)
    return f"the equations have no finite solution at this state, with these contacts active: {names}{more}"


def leaning_wheel(tree, contacts, q, active):
    """An active wheel that leans too much at a position, in words; None without one."""
    equations = contact_equations(tree, joint_transforms(tree, q), contacts)
    for contact, equation, s in zip(contacts, equations, active, strict=True):
        if s and equation.leaning() > LEANING:
            return f"wheel {contact.name!r} leans more than 75 degrees from upright"
    return None


def _pairs(q, active):
    batch = np.broadcast_shapes(q.shape[:-1], active.shape[:-1])
    arrays = [np.broadcast_to(a, (*batch, a.shape[-1])).reshape(-1, a.shape[-1]) for a in (q, active)]
    return zip(*arrays, strict=True)


def fixed_vector(n):
    """A vector of length 1 without pattern, of few digits."""
    v = np.array([1.0 + ((k * k * 7 + 3 * k) % 11) / 16.0 for k in range(n)])
    return (np.round(v / np.sqrt((v * v).sum()) * 1024) / 1024).astype(object)
