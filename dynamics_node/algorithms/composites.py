"""Inverse dynamics of a tree and its derivatives in stages (algorithms/derivatives.py): quantities of all
bodies, or of all velocity coordinates, side by side."""

from functools import partial

import numpy as np

from dynamics_node.algorithms import derivatives as by
from dynamics_node.robot.reframe import regrouped_away
from dynamics_node.symbolic import Staging, entries, mapped, pseudo_inertia

_UPPER = np.triu_indices(4)


class Composites:
    """Arrays of Values: of bodies (nbodies, ...) in the order of the tree, and of columns. A column is one of
    the joint's own rates; columns are in depth-first order of the bodies, so those of a subtree lie side by
    side. Weights of explicit joints count where columns meet coordinates.

    All vectors are in the frame of the root body above a body: its own motions are unit vectors. J
    (nbodies, 4, 4): pseudo-inertias; the rest as in `rnea`.
    """

    def __init__(self, tree, staging: Staging, J, q, qd, gravity):
        self.tree, self.staging, self._qd = tree, staging, qd
        self.parents = np.array(tree.parents, dtype=int)
        order = sorted(range(tree.nbodies), key=tree.ancestors.__getitem__)  # depth first
        joints = [tree.bodies[i].joint for i in order]
        self._body = np.repeat(order, [joint.type.nv for joint in joints])
        self._weights = np.concatenate([_over_all(joint, tree.nv) for joint in joints])
        self._rank_of_body, self._rank_of_column = np.argsort(order), np.arange(len(self._body))
        self._move(np.concatenate([joint.subspace.T for joint in joints]), J, q, gravity)

    def _move(self, S, J, q, gravity):
        """Poses, columns, velocities and moments of the bodies."""
        body, alone = self._body, self.staging.alone
        self.R, self.p, self._start = alone(partial(by.frames, self.tree), q, gravity)
        self.S = self._of_columns(by.placed_motion, self.R[body], self.p[body], S)
        self._v = alone(self._velocities, self.S, self._qd)
        self._v_before = self._before(self._v, np.zeros(6))
        v_joint = alone(self._of_joints, self.S, self._qd)
        self._first, self._both = self._of_columns(by.first_rates, self.S, self._v_before, v_joint)
        self._moments = self.of_bodies(_moments, self.R, self.p, J, self._v)
        inertia, self._momentum = entries(alone(self._sums, self._moments), body)
        self._inertia, self._load = inertia, self._of_columns(by.inertia_times, inertia, self.S)

    # --- all at once ----------------------------------------------------------------------------------------

    def of_bodies(self, function, *arrays):
        """function(*arrays) of every body, the first axis of arguments and results."""
        return self._apart(function, self._rank_of_body, self.parents < 0, arrays)

    def _of_columns(self, function, *arrays):
        return self._apart(function, self._rank_of_column, self.parents[self._body] < 0, arrays)

    def _apart(self, function, rank, is_root, arrays):
        """Roots alone, because many of their entries are zero; all others side by side."""
        roots, rest = np.flatnonzero(is_root), np.flatnonzero(~is_root)
        root_results = self.staging.alone(function, *entries(arrays, roots))
        if not len(rest):
            return root_results
        rest = rest[np.argsort(rank[rest])]
        others = self.staging.side_by_side(function, *entries(arrays, rest))
        place = np.argsort(np.concatenate([roots, rest]))
        return _joined(lambda a, b: np.concatenate([a, b])[place], root_results, others)

    def _before(self, array, root):
        """For columns, the entry of the body before; root: the entry (6,) or (nbodies, 6) before a root."""
        before = self.parents[self._body]
        previous = array[before]
        previous[before < 0] = np.broadcast_to(root, array.shape)[self._body[before < 0]]
        return previous

    def _outward(self, start, steps):
        """For bodies: the value of the parent, or `start` (nbodies, 6), plus the steps of the body's
        columns."""
        x = np.zeros((len(self.parents), 6), dtype=object)
        for i, parent in enumerate(self.parents):
            before = start[i] if parent < 0 else x[parent]
            x[i] = sum((steps[k] for k in np.flatnonzero(self._body == i)), before)
        return x

    def _sums(self, arrays):
        """For bodies, the sums over their subtrees."""
        return mapped(self._composite, arrays)

    def _composite(self, array):
        total = array.copy()
        for i, parent in reversed(list(enumerate(self.parents))):
            if parent >= 0:
                total[parent] = total[parent] + total[i]
        return total

    def _velocities(self, S, qd):
        return self._outward(np.zeros((len(self.parents), 6)), S * self._rates(qd)[:, None])

    def _rates(self, changes):
        """Rates of columns from those (nv,) of the coordinates."""
        return self._weights @ changes

    def _of_joints(self, S, qd):
        """For columns of joints with several coordinates, the velocity of the joint."""
        steps, several = S * self._rates(qd)[:, None], np.bincount(self._body)[self._body] > 1
        v = np.zeros(S.shape, dtype=object)
        for k in np.flatnonzero(several):
            v[k] = steps[self._body == self._body[k]].sum(axis=0)
        return v

    # --- accelerations and torques --------------------------------------------------------------------------

    def accelerate(self, qdd, outer=None):
        """Accelerations of bodies, and the wrenches for them. outer (nbodies, 6): wrenches on bodies, in
        their axes, about their origins."""
        self._qdd = qdd
        self._a = self.staging.alone(self._accelerations, self.S, self._first, self._start, self._qd, qdd)
        wrench = self.of_bodies(_wrench, self._moments, self._v, self._a)
        if outer is not None:
            wrench = self.of_bodies(_less, wrench, self.R, self.p, outer)
        self._wrench = self.staging.alone(self._composite, wrench)

    def _accelerations(self, S, first, start, qd, qdd):
        begin = np.concatenate([np.zeros_like(start), start], axis=1)
        return self._outward(begin, S * self._rates(qdd)[:, None] + first * self._rates(qd)[:, None])

    def torques(self, armature):
        """tau (nv,) at these accelerations, without the torque for a rotor's own acceleration. armature
        (axles,)."""
        arrays = self.S, self._wrench[self._body], armature, self._qdd
        return self.staging.alone(self._torques, *arrays)

    def _torques(self, S, wrench, armature, qdd):
        tau, axles = self._weights.T @ by.dot(S, wrench), self.tree.axle_map[self.tree.nv :]
        return tau + (armature[self.tree.nv :] * (axles @ qdd)) @ axles if len(axles) else tau

    def accelerate_more(self, qdd):
        """Add accelerations qdd (nv,)."""
        a = self.staging.alone(self._velocities, self.S, qdd)
        wrench = self.of_bodies(by.inertia_times, self._moments[0], a)
        more = (self._a, self._wrench, a, wrench)
        self._a, self._wrench = self.staging.alone(self._added, *more)

    def _added(self, a, sum_of_wrenches, more, wrench):
        return a + more, sum_of_wrenches + self._composite(wrench)

    def push(self, outer):
        """Add wrenches (nbodies, 6) on bodies, in the common frame."""
        self._wrench = self.staging.alone(self._pushed, self._wrench, outer)

    def _pushed(self, sum_of_wrenches, outer):
        return sum_of_wrenches - self._composite(outer)

    # --- motions of a body ----------------------------------------------------------------------------------

    def path(self, body):
        """The columns that move a body: those of the root, and the others."""
        there = np.isin(self._body, self.tree.ancestors[body])
        is_root = self.parents[self._body] < 0
        return [
            lanes
            for lanes in (np.flatnonzero(there & is_root), np.flatnonzero(there & ~is_root))
            if len(lanes)
        ]

    def motion(self, body):
        """Velocity, acceleration with gravity, and that equivalent to gravity, (6,) each, of a body."""
        root = self.tree.ancestors[body][0]
        fall = np.concatenate([np.zeros(3), self._start[root]])
        return self._v[body], self._a[body], fall

    def columns(self):
        """The Column of every column."""
        start = np.concatenate([np.zeros_like(self._start), self._start], axis=1)
        a_before = self._before(self._a, start)
        second = self._of_columns(by.second_rates, self.S, self._first, self._v_before, a_before)
        return by.Column(self.S, self._first, second, self._both)

    def first_rates(self, rates):
        """`first` of every column (columns, 6), at rates (nv,)."""
        v_before = self._before(self.staging.alone(self._velocities, self.S, rates), np.zeros(6))
        return self._of_columns(_column_rates, v_before, self.S)

    def by_coordinates(self, matrix):
        """A matrix (n, columns) of Values -> (n, nv)."""
        return self.staging.alone(np.matmul, matrix, self._weights)

    # --- matrices -------------------------------------------------------------------------------------------

    def masses(self, armature):
        """M (nv, nv), with armature (nv,)."""
        M = _Sums(self.tree.nv)
        for k, lanes, below in self._pairs():
            products = self.staging.side_by_side(by.dot, self._load[lanes], shared=(self.S[k],))
            M.add(self._weights[lanes], self._weights[k], products)
            M.add(self._weights[k], self._weights[lanes[below]], products[below])
        there = [k for k, rotor in enumerate(armature) if not (isinstance(rotor, float) and rotor == 0.0)]
        M.add(self.tree.axle_map[there], self.tree.axle_map[there], armature[there])
        return M.matrix(self.staging)

    def derivatives(self):
        """dtau/dq and dtau/dqd (nv, nv)."""
        columns = self.columns()
        wrench = self._wrench[self._body]
        loads = self._of_columns(by.load, columns, self._inertia, self._momentum, wrench, self._load)
        dq, dqd = _Sums(self.tree.nv), _Sums(self.tree.nv)
        for k, lanes, below in self._pairs():
            each, shared = entries(loads, lanes), (entries(columns, k),)
            torques = self.staging.side_by_side(_torques, each, shared=shared)
            for matrix, above_torques, below_torques in zip((dq, dqd), *torques, strict=True):
                matrix.add(self._weights[lanes], self._weights[k], below_torques)
                matrix.add(self._weights[k], self._weights[lanes[below]], above_torques[below])
        return dq.matrix(self.staging), dqd.matrix(self.staging)

    def _pairs(self):
        """(column, columns of its body and subtree, which of them are of another body); root columns
        separately."""
        is_root, ancestors = self.parents[self._body] < 0, self.tree.ancestors
        for k, body in enumerate(self._body):
            in_subtree = np.array([body in ancestors[other] for other in self._body])
            for lanes in (np.flatnonzero(in_subtree & is_root), np.flatnonzero(in_subtree & ~is_root)):
                if len(lanes):
                    yield k, lanes, self._body[lanes] != body


def pseudo_inertias(tree, numbers):
    """(nbodies, 4, 4) with base parameters; numbers (nbodies, 10): the inputs, or None."""
    J = pseudo_inertia(tree.inertias).astype(object)
    if numbers is not None:
        J[:, _UPPER[0], _UPPER[1]] = J[:, _UPPER[1], _UPPER[0]] = numbers
    J[regrouped_away(tree)] = 0.0
    return J


def _over_all(joint, nv):
    """The weights (nv of the kind, nv) of a joint for all coordinates."""
    weights = np.zeros((joint.type.nv, nv))
    weights[:, joint.v] = joint.weights
    return weights


class _Sums:
    """A square matrix of weighted sums of Values."""

    def __init__(self, size):
        self._terms: dict[tuple[int, int], list] = {}
        self._size = size

    def add(self, rows, columns, values):
        """values (n,) at the coordinates with weights in rows and columns, (n, size) or (size,) for all."""
        for k, value in enumerate(values):
            row, column = (weights if weights.ndim == 1 else weights[k] for weights in (rows, columns))
            for i in np.flatnonzero(row).tolist():
                for j in np.flatnonzero(column).tolist():
                    self._terms.setdefault((i, j), []).append((row[i] * column[j], value))

    def matrix(self, staging):
        """(size, size) of Values and zeros."""
        matrix = np.zeros((self._size, self._size), dtype=object)
        weighted = {}
        for place, terms in self._terms.items():
            if len(terms) == 1 and terms[0][0] == 1.0:
                matrix[place] = terms[0][1]
            else:
                weighted[place] = terms
        if weighted:
            weights = [[weight for weight, _ in terms] for terms in weighted.values()]
            values = [[value for _, value in terms] for terms in weighted.values()]
            totals = staging.alone(partial(_totals, weights), *values)
            for place, total in zip(weighted, totals, strict=True):
                matrix[place] = total
        return matrix


def _totals(weights, *terms):
    pairs = zip(weights, terms, strict=True)
    return np.array([sum(w * x for w, x in zip(*terms, strict=True)) for terms in pairs], dtype=object)


def _joined(join, a, b):
    """The nested tuples with join(array of a, array of b) in place of each pair of arrays."""
    if not isinstance(a, tuple):
        return join(a, b)
    parts = [_joined(join, *pair) for pair in zip(a, b, strict=True)]
    return tuple(parts) if type(a) is tuple else type(a)(*parts)


# --- functions of stages ------------------------------------------------------------------------------------


def _column_rates(v_before, S):
    return by.cross_motion(v_before, S)


def _moments(R, p, J, v):
    inertia = by.placed_inertia(R, p, J)
    return inertia, by.momentum(inertia, v)


def _wrench(moments, v, a):
    inertia, momentum = moments
    return by.inertia_times(inertia, a) + by.twisted(momentum, v[..., :3])


def _less(wrench, R, p, outer):
    return wrench - by.placed_wrench(R, p, outer)


def _torques(load, column):
    return by.torques_above(load, column), by.torques_below(load, column)
