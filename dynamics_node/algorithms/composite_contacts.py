"""The equations of a tree with contacts of the world, linearized by composite bodies: see ByPrograms in
algorithms/contact_linearization.py.

All is in the common frame of algorithms/derivatives.py. P moves with its body, and A is the spatial
acceleration of the body. P of a point has the axes that the contact has at this state. Derivatives of P^T A
by the position and velocity of a coordinate with motion S are

    P^T (second - A_g x S) + (v x* P)^T first,   P^T both + (v x* P)^T S

v is the velocity of the body, A_g the acceleration equivalent to gravity. This follows from the motion of the
subtree as a rigid body (Carpentier and Mansard 2018).
"""

from functools import partial
from itertools import pairwise

import numpy as np

from dynamics_node.algorithms import derivatives as by
from dynamics_node.algorithms.composites import Composites, pseudo_inertias
from dynamics_node.algorithms.contact_equations import axes_of_normal, placed, wrenches
from dynamics_node.algorithms.reduced_frames import economical_robot
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    cross_force,
    cross_motion,
    inverse_motion_transform,
    matvec,
    product,
    skew,
    transform_rotation,
    transpose,
)


def has_composites(robot, contacts):
    """Whether ByComposites serves these contacts: of points and surfaces of a tree with the world."""
    fixed = [not c.other or robot.tree.frame(c.other).body < 0 for c in contacts]
    return not robot.constrained and all(fixed) and all(c.kind != "wheel" for c in contacts)


class ByComposites:
    """As ByPrograms, but turn is 1. scales (rows,): factors of the rows of J and gaps."""

    def __init__(self, robot, contacts, staging, parameters, scales=None):
        self._tree, T = economical_robot(robot)
        given, self._staging = staging.arrays, staging
        J = pseudo_inertias(self._tree, given.get("inertia"))
        self._work = Composites(self._tree, staging, J, given["q"], given["qd"], given["gravity"])
        self._outer = None
        if "f_ext" in given:
            to_ours = transpose(inverse_motion_transform(T))
            self._outer = self._work.of_bodies(matvec, to_ours, given["f_ext"])
        self._armature = given.get("armature", self._tree.armature)
        ends = np.cumsum([0, *(len(contact.rows) for contact in contacts)]).tolist()
        self._rows = [slice(*pair) for pair in pairwise(ends)]
        self.turn = np.eye(ends[-1])
        scales = np.ones(ends[-1]) if scales is None else scales
        self._place(contacts, scales, given["q"], given["contact_accelerations"])

    def _place(self, contacts, scales, q, accelerations):
        """Of every contact its body, rows Q of P in the common frame, given accelerations along P, and
        `axes`: of a point those of the contact, as rows; zeros of a surface, whose P moves with its body."""
        work, alone, tree = self._work, self._staging.alone, self._tree
        axes = alone(partial(_axes, tree, contacts), q)
        self._bodies, self._Q, self._axes, self._goals = [], [], [], []
        for k, (contact, rows) in enumerate(zip(contacts, self._rows, strict=True)):
            body, R, r = placed(tree, contact)
            there = work.R[body], work.p[body], scales[rows]
            if contact.kind == "point":
                self._Q.append(alone(partial(_pulls, r), *there, axes[k]))
            else:
                self._Q.append(alone(partial(_pushes, wrenches(R, r).T), *there))
            self._bodies.append(body)
            self._axes.append(axes[k])
            self._goals.append(alone(np.multiply, scales[rows], accelerations[rows]))

    def start(self, qdd):
        """tau and gaps without forces."""
        work = self._work
        work.accelerate(qdd, self._outer)
        self._start, self.M = qdd, work.masses(self._armature)
        self.J = self._rows_of(lambda k: (_along, (work.S,), (self._Q[k],)))
        gaps = [
            self._staging.alone(_gap, Q, goal, *work.motion(body)[1:])
            for body, Q, goal in zip(self._bodies, self._Q, self._goals, strict=True)
        ]
        return work.torques(self._armature), np.concatenate(gaps)

    def move(self, qdd, components):
        """To accelerations qdd (nv,) and forces."""
        work, alone = self._work, self._staging.alone
        work.accelerate_more(alone(np.subtract, qdd, self._start))
        parts = [components[rows] for rows in self._rows]
        outer = partial(_wrenches, self._bodies, self._tree.nbodies)
        work.push(alone(outer, tuple(self._Q), tuple(parts)))
        columns = work.columns()
        moved, turned, rates = [], [], []
        for k, body in enumerate(self._bodies):
            v, _, fall = work.motion(body)
            Q, axes = (self._Q[k], alone(_moving, v, self._Q[k])), self._axes[k]
            moved.append((_by_position, tuple(columns), (*Q, fall, axes, self._goals[k])))
            turned.append((_about, (columns.S,), (axes, parts[k])))
            rates.append((_by_velocity, (columns.S, columns.both), Q))
        tau = work.derivatives()
        self._by_position = tau[0], self._rows_of(moved.__getitem__)
        self._by_velocity = tau[1], self._rows_of(rates.__getitem__)
        self.turning = self._rows_of(turned.__getitem__)

    def by_position(self):
        """The derivatives of tau (nv, nv) and gaps (rows, nv)."""
        return self._by_position

    def by_velocity(self):
        return self._by_velocity

    def velocities(self, rates):
        """The derivatives (rows, nv) by position of the velocities of contacts at constant rates (nv,)."""
        first = self._work.first_rates(rates)
        return self._rows_of(lambda k: (_along, (first,), (self._Q[k],)))

    def _rows_of(self, of_contact):
        """(rows, nv): for every contact k of_contact(k) is a function (*arrays of a column, *shared) -> its
        rows, arrays of all columns, and what columns share."""
        matrix = None
        for k, (body, rows) in enumerate(zip(self._bodies, self._rows, strict=True)):
            function, each, shared = of_contact(k)
            if matrix is None:
                matrix = np.zeros((len(self.turn), len(each[0])), dtype=object)
            for lanes in self._work.path(body):
                chosen = (array[lanes] for array in each)
                result = self._staging.side_by_side(function, *chosen, shared=shared)
                matrix[rows, lanes] = result.T
        return self._work.by_coordinates(matrix)


# --- functions of stages ------------------------------------------------------------------------------------


def _axes(tree, contacts, q):
    """(contacts, 3, 3): axes of points as rows, in the common frame."""
    X_up, axes = joint_transforms(tree, q), np.zeros((len(contacts), 3, 3), dtype=object)
    for k, contact in enumerate(contacts):
        if contact.kind == "point":
            frame = tree.frame(contact.other) if contact.other else None
            rows = axes_of_normal(contact.normal)
            rows = rows if frame is None else product(rows, transform_rotation(frame.X))
            root = tree.ancestors[tree.frame(contact.link).body][0]
            axes[k] = np.stack([X_up.vector(root, row) for row in rows])
    return axes


def _pulls(r, R, p, scales, axes):
    """The wrenches of unit forces along axes at a point r of a body."""
    at, scaled = p + R @ r, scales[:, None] * axes
    return np.stack([np.concatenate([matvec(skew(at), row), row]) for row in scaled])


def _pushes(rows, R, p, scales):
    return scales[:, None] * by.placed_wrench(R, p, rows)


def _gap(Q, goal, a, fall):
    return Q @ (a - fall) - goal


def _wrenches(bodies, count, Q, components):
    outer = np.zeros((count, 6), dtype=object)
    for body, rows, forces in zip(bodies, Q, components, strict=True):
        outer[body] = outer[body] + forces @ rows
    return outer


def _moving(v, Q):
    return np.stack([cross_force(v, row) for row in Q])


def _along(S, Q):
    return Q @ S


def _by_position(S, first, second, both, Q, moving, fall, axes, goal):
    change = Q @ (second - cross_motion(fall, S)) + moving @ first
    return change + _about(S, axes, goal)


def _by_velocity(S, both, Q, moving):
    return Q @ both + moving @ S


def _about(S, axes, components):
    """The change of components (rows,) of a vector that is constant in the world if the body turns."""
    return np.zeros(len(components)) if len(components) != 3 else matvec(skew(axes @ S[:3]), components)
