"""The variables and factors of paper 1: of bodies, loops, gears, belts and contacts, a function per equation.

A factor is sum_k A_k x_k = b over typed variables (section II).

X takes motion vectors from the parent of a body to the body; the angular part comes first. A loop joint is
cut (section VII): the force T F that it transmits acts on the successor, and its opposite on the predecessor.
selected: the directions of T that no other constraint implies. Notation: see loop_forces.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.sensor_problem import SensorProblem
from dynamics_node.symbolic import matvec, transpose

ACCELERATION, WRENCH, TORQUE, JOINT_ACCELERATION = "A", "F", "tau", "qdd"
COUPLING_FORCE, VIRTUAL_VELOCITY = "C", "mu"
CONTACT_FORCE = "lambda"
_TURNING = [f"{what} {axis}" for what in ("moment", "force") for axis in "xyz"]
_MOVING = [f"{what} acceleration {axis}" for what in ("angular", "linear") for axis in "xyz"]


# --- variables ----------------------------------------------------------------------------------------------


class Variable(NamedTuple):
    """kind: A (spatial acceleration), F (wrench across the joint), tau or qdd; body: its number from 0.

    tau and qdd belong to the body whose joint owns the coordinates. Constraints are numbered on after the
    bodies: F of a cut loop joint, C (force of a gear, a belt or another coupling). mu: see
    `minimum_torque_factors`. lambda (force of a contact) is numbered like the contacts of a problem. Printed
    as in the paper: A1, F1, ...
    """

    kind: str
    body: int
    dim: int

    def __str__(self):
        return f"{self.kind}{self.body + 1}"

    def __repr__(self):
        return str(self)


def acceleration(body):
    return Variable(ACCELERATION, body, 6)


def wrench(body, dim=6):
    return Variable(WRENCH, body, dim)


def coupling_force(number, dim):
    return Variable(COUPLING_FORCE, number, dim)


def virtual_velocity(dim):
    return Variable(VIRTUAL_VELOCITY, 0, dim)


def torque(body, dim=1):
    return Variable(TORQUE, body, dim)


def joint_acceleration(body, dim=1):
    return Variable(JOINT_ACCELERATION, body, dim)


def contact_force(number, dim):
    return Variable(CONTACT_FORCE, number, dim)


def entry_names(robot, problem: SensorProblem, variable: Variable) -> tuple[str, ...]:
    """Names of the entries of a variable: `torque of joint 'knee'`, `moment z of contact 'foot'`."""
    bodies, number = robot.tree.bodies, variable.body
    if variable.kind == CONTACT_FORCE:
        contact = problem.contacts[number]
        axes = f" in axes of link {contact.link!r}" if contact.kind == "point" else ""
        named = [("moment" if row[0] == "m" else "force", row[1]) for row in contact.rows]
        return tuple(f"{part} {axis} of contact {contact.name!r}{axes}" for part, axis in named)
    if number >= len(bodies) or variable.kind == COUPLING_FORCE:
        return _of_constraint(robot, number - len(bodies), variable.dim)
    body, joint = bodies[number], bodies[number].joint
    if variable.kind == ACCELERATION:
        return tuple(f"{what} of link {body.name!r}" for what in _MOVING)
    if variable.kind == WRENCH:
        return tuple(f"{what} across joint {joint.name!r}" for what in _TURNING)
    what = {TORQUE: "torque", JOINT_ACCELERATION: "acceleration"}[variable.kind]
    parts = joint.type.v_names or ("",)
    return tuple(f"{what}{' ' if part else ''}{part} of joint {joint.name!r}" for part in parts)


def _of_constraint(robot, number, dim):
    assert robot.constrained
    name = robot.constraints[number].name
    return tuple(f"force {k} of constraint {name!r}" for k in range(1, dim + 1))


# --- factors ------------------------------------------------------------------------------------------------


NATURAL = {
    ACCELERATION: "acceleration",
    WRENCH: "wrench",
    TORQUE: "torque",
    JOINT_ACCELERATION: "torque",
    CONTACT_FORCE: "contact",
}


@dataclass(frozen=True, eq=False)
class LinearFactor:
    """Rows sum_k blocks[x_k] x_k = rhs: blocks (..., rows, dim), rhs (..., rows).

    kind: of the equation; body: its number.
    """

    kind: str
    body: int
    blocks: Mapping[Variable, np.ndarray]
    rhs: np.ndarray

    @property
    def name(self):
        return f"{self.kind}{self.body + 1}"

    @property
    def rows(self):
        return self.rhs.shape[-1]

    def given(self, values):
        """The factor with known variables moved to the right-hand side."""
        blocks, rhs = dict(self.blocks), self.rhs
        for variable in (x for x in self.blocks if x in values):
            rhs = rhs - matvec(blocks.pop(variable), values[variable])
        return replace(self, blocks=blocks, rhs=rhs)

    def __str__(self):
        return f"{self.name}({', '.join(map(str, self.blocks))})"


def is_natural(variable, factor: LinearFactor):
    """Whether a factor is a variable's own equation: (5) of A, (6) of F, (7) of tau or qdd, its rows of the
    force of a contact. As long as all are solved from their own, the inertia at a joint is definite. For a
    floating joint, (6) and (7) have the same six rows up to the sign, so either counts."""
    kinds = {NATURAL.get(variable.kind)}
    if variable.dim == factor.rows == 6 and variable.kind not in (ACCELERATION, CONTACT_FORCE):
        kinds = {"wrench", "torque"}
    return factor.body == variable.body and factor.kind in kinds


def acceleration_factor(i, parent, motion_subspaces, X, velocity_product, root_acceleration):
    """Eq. (5): A_i - X_i A_p - S_i qdd_i = ad(V_i) S_i qd_i; the root's acceleration is known.

    motion_subspaces: {body that owns coordinates: S}; other bodies if the joint is explicit.
    """
    blocks = {acceleration(i): np.eye(6)}
    rhs = velocity_product
    if parent >= 0:
        blocks[acceleration(parent)] = -X
    else:
        rhs = rhs + matvec(X, root_acceleration)
    for owner, S in motion_subspaces.items():
        blocks[joint_acceleration(owner, S.shape[1])] = -S
    return LinearFactor("acceleration", i, blocks, rhs)


def wrench_factor(i, children, inertia, X, velocity_wrench, external):
    """Eq. (6): F_i - sum_c X_c^T F_c - G_i A_i = -ad(V_i)^T G_i V_i - f_ext.

    external (..., 6): wrench of the environment ON the body; the paper's tool wrench is minus that.
    """
    blocks = {wrench(i): np.eye(6)}
    for child in children:
        blocks[wrench(child)] = -transpose(X.matrix(child))
    blocks[acceleration(i)] = -inertia
    return LinearFactor("wrench", i, blocks, velocity_wrench - external)


def torque_factor(owner, motion_subspaces, rotors):
    """Eq. (7): tau - sum_i S_i^T F_i - sum_k R_k qdd_k = 0 over the bodies that share the coordinates.

    rotors: {body that owns coordinates: block of the inertia of rotors}; motion_subspaces: {body: S}; more
    than one where explicit joints follow the owner's.
    """
    dim = len(rotors[owner])
    blocks = {torque(owner, dim): np.eye(dim)}
    for i, S in motion_subspaces.items():
        blocks[wrench(i)] = -S.T
    for other, R in rotors.items():
        if np.any(R != 0):
            blocks[joint_acceleration(other, R.shape[1])] = -R
    return LinearFactor("torque", owner, blocks, np.zeros(dim))


def loop_wrench_blocks(loop, F, cut, selected):
    """{body: {F: block}}: contributions of a cut loop joint, which transmits T F, to the wrench factors (6)
    of its ends."""
    ends = ((loop.predecessor, cut["X_p"], -1.0), (loop.successor, cut["X_s"], 1.0))
    T = cut["T"][..., selected]
    return {body: {F: sign * transpose(X) @ T} for body, X, sign in ends if body >= 0}


def loop_acceleration_factor(number, loop, cut, selected, root_acceleration):
    """T^T (X_p A_p - X_s A_s) = T^T (V_s x V_p) - (dT/dt)^T (V_p - V_s); the root's acceleration is known."""
    T = transpose(cut["T"])[..., selected, :]
    blocks, rhs = {}, cut["change"][..., selected]
    for body, X in ((loop.predecessor, T @ cut["X_p"]), (loop.successor, -T @ cut["X_s"])):
        if body >= 0:
            blocks[acceleration(body)] = X
        else:
            rhs = rhs - matvec(X, root_acceleration)
    return LinearFactor("loop acceleration", number, blocks, rhs)


def coupling_factor(number, joints, K, k):
    """K qdd = k over the joints of a gear, a belt or another constraint between coordinates. joints: {body:
    its column of K}."""
    blocks = {joint_acceleration(i): K[..., v : v + 1] for i, v in joints.items()}
    return LinearFactor("coupling", number, blocks, k)


def coupling_force_blocks(C, joints, K):
    """{body: {C: block}} of its force in the torque factors (7): tau + K^T C = S^T F."""
    return {i: {C: transpose(K[..., v : v + 1])} for i, v in joints.items()}


def contact_factor(number, sides, active, acceleration_along):
    """s (sum P^T A - a) + (1 - s) lambda = 0 over the bodies of a contact, {body: P (..., 6, rows)}.

    active (...): s, one where the contact holds, zero elsewhere; acceleration_along (..., rows): a, without
    gravity as A is.
    """
    rows = acceleration_along.shape[-1]
    s = np.asarray(active)[..., None]
    blocks = {acceleration(body): s[..., None] * transpose(P) for body, P in sides.items()}
    blocks[contact_force(number, rows)] = (1.0 - s)[..., None] * np.eye(rows)
    return LinearFactor("contact", number, blocks, s * acceleration_along)


def minimum_torque_factors(weights, joints, G):
    """The equivalent torques of least sum_j weights[j] tau_j^2: weights[j] tau_j = (G mu)_j with a
    virtual velocity mu (nv,) of the independent coordinates; least squares as exact equations.

    weights, joints: {body: cost of its joint's torque}, {body: its row of G}; G (..., nv of the tree, nv)
    as in `explicit_rates`.
    """
    mu = virtual_velocity(G.shape[-1])
    for i, weight in weights.items():
        blocks = {torque(i): np.array([[weight]]), mu: -G[..., joints[i] : joints[i] + 1, :]}
        yield LinearFactor("minimum torque", i, blocks, np.zeros(1))


def with_blocks(factor, blocks):
    """The factor with more variables."""
    return replace(factor, blocks={**factor.blocks, **blocks})
