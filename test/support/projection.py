"""Dynamics of linkages by other means than the library's: Pinocchio's open tree, rows of constraints written
down by hand from the velocities of both ends, and least squares by singular values over all rows."""

from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest
from oracle import Oracle

import dynamics_node as dn

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")


class Spread(NamedTuple):
    """qd = G yd, qdd = G ydd + g; condition: of K_dep."""

    G: np.ndarray
    g: np.ndarray
    condition: float


class Projection(Oracle):
    """A Linkage over all of its joints (n velocities, body by body), for the Robot that was read from it: its q (nq,)
    and what belongs to its independent joints."""

    def __init__(self, linkage, mechanism):
        self.linkage, self.mechanism, self.model = linkage, mechanism, mechanism
        root = (pin.JointModelFreeFlyer(),) if mechanism.floating_base else ()
        self.pin = pin.buildModelFromXML(linkage.text, *root)
        self.pin.gravity.linear[:] = mechanism.gravity
        self.data = self.pin.createData()
        self.names, self.n = list(mechanism.joint_map_names), self.pin.nv
        self.own = [self.names.index(name) for name in mechanism.v_names]
        self.order = np.concatenate([self._velocities(body.joint) for body in mechanism.bodies])

    def _velocities(self, joint):
        """Theirs of a joint, in our order."""
        at = self._joint(joint)
        within = [3, 4, 5, 0, 1, 2] if joint.kind == "floating" else range(at.nv)
        return [at.idx_v + k for k in within]

    def positions(self, q):
        """{joint: its position}."""
        sizes = np.cumsum([body.joint.type.nq for body in self.mechanism.bodies])[:-1]
        every = np.split(dn.spanning(self.mechanism, q)[0], sizes)
        return {body.joint.name: own for body, own in zip(self.mechanism.bodies, every, strict=True)}

    def q(self, q):
        theirs, positions = pin.neutral(self.pin), self.positions(q)
        for joint in (body.joint for body in self.mechanism.bodies):
            at, value = self._joint(joint), positions[joint.name]
            if joint.kind == "continuous":
                value = np.array([np.cos(value[0]), np.sin(value[0])])
            theirs[at.idx_q : at.idx_q + at.nq] = value
        return theirs

    def rows(self, q, qd):
        """K (rows, n) and k of K qdd = k, and by how much every loop is open."""
        at, rates = self.q(q), self.v(qd)
        pin.forwardKinematics(self.pin, self.data, at, rates, np.zeros(self.pin.nv))
        pin.computeJointJacobians(self.pin, self.data, at)
        found = [_ROWS[tie.kind](tie, *self._ends(tie)) for tie in self.linkage.ties]
        K = [np.array(K).reshape(-1, self.pin.nv)[:, self.order] for K, _, _ in found]
        k = [np.ravel(k) for _, k, _ in found]
        for weights in self.linkage.gears:
            row = np.zeros(self.n)
            row[[self.names.index(name) for name in weights]] = list(weights.values())
            K, k = [*K, row[None]], [*k, np.zeros(1)]
        at = self.positions(q)
        gears = [sum(w * at[n][0] for n, w in g.items()) for g in self.linkage.gears]
        return np.concatenate(K), np.concatenate(k), np.array([*(gap for _, _, gap in found), *gears])

    def _ends(self, tie):
        return (self._end(end) for end in (tie.predecessor, tie.successor))

    def _end(self, end):
        frame = self.pin.frames[self.pin.getFrameId(end.link, pin.BODY)]
        own = frame.placement * pin.SE3(np.asarray(end.rotation), np.asarray(end.origin, float))
        body = frame.parentJoint
        J = pin.getFrameJacobian(self.pin, self.data, body, own, pin.LOCAL)
        v, a, M = own.actInv(self.data.v[body]), own.actInv(self.data.a[body]), self.data.oMi[body] * own
        R, classical = M.rotation, a.linear + np.cross(v.angular, v.linear)
        turning = (R @ J[3:], R @ v.angular, R @ a.angular)
        return _Moving(R, M.translation, R @ J[:3], R @ v.linear, R @ classical, *turning)

    def gap(self, q):
        """By how much a loop is open at q, m or 1."""
        return np.abs(self.rows(q, np.zeros(self.n))[2]).max(initial=0.0)

    def spread(self, q, yd):
        n, own = self.n, self.own
        K, _, _ = self.rows(q, np.zeros(n))
        dependent = np.setdiff1d(np.arange(n), own)
        G, g = np.zeros((n, len(own))), np.zeros(n)
        G[own, np.arange(len(own))] = 1.0
        sizes = np.linalg.svd(K[:, dependent], compute_uv=False)
        inverse = np.linalg.pinv(K[:, dependent], rcond=1e-13)
        G[dependent] = -inverse @ K[:, own]
        g[dependent] = inverse @ self.rows(q, G @ yd)[1]
        if not len(dependent):
            return Spread(G, g, 1.0)
        last = sizes[len(dependent) - 1] if len(sizes) >= len(dependent) else 0.0
        return Spread(G, g, sizes[0] / last if last > 0 else np.inf)

    def torques(self, q, yd, ydd, f_ext=None):
        G, g, _ = self.spread(q, yd)
        return G.T @ self.inverse(q, G @ yd, G @ ydd + g, f_ext)

    def projected(self, q):
        """Mass matrix (nv, nv) of the independent joints."""
        G = self.spread(q, np.zeros(self.mechanism.nv)).G
        return G.T @ self.mass_matrix(q) @ G

    def by_multipliers(self, q, yd, tau):
        """Accelerations of the independent joints, out of one system with the forces of the constraints."""
        rates = self.spread(q, yd).G @ yd
        K, k, _ = self.rows(q, rates)
        n, effort = self.n, np.zeros(self.n)
        effort[self.own] = tau
        system = np.block([[self.mass_matrix(q), K.T], [K, np.zeros((len(K), len(K)))]])
        right = np.concatenate([effort - self.inverse(q, rates, np.zeros(n)), k])
        return np.linalg.lstsq(system, right, rcond=1e-13)[0][:n][self.own]


class _Moving(NamedTuple):
    """A frame in world axes: rotation, origin; for its origin and its turning, Jacobian, velocity, and the
    acceleration with all qdd at zero."""

    R: np.ndarray
    p: np.ndarray
    J: np.ndarray
    v: np.ndarray
    a: np.ndarray
    Jw: np.ndarray
    w: np.ndarray
    wd: np.ndarray


# --- K, k and the gap of one loop ---------------------------------------------------------------------------


def _frame(axis):
    """Two directions across an axis, and the axis."""
    n = axis / np.linalg.norm(axis)
    first = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first /= np.linalg.norm(first)
    return first, np.cross(n, first), n


def _same_point(A, B):
    return list(A.J - B.J), list(B.a - A.a), np.abs(A.p - B.p).max()


def _along(directions, A, B):
    """The distance does not change along directions of B."""
    K, k, d, v = [], [], A.p - B.p, A.v - B.v
    for t in directions:
        t = B.R @ t
        turning = np.cross(B.w, t)
        K.append(t @ (A.J - B.J) + np.cross(t, d) @ B.Jw)
        more = np.cross(B.wd, t) + np.cross(B.w, turning)
        k.append(-(t @ (A.a - B.a) + 2 * turning @ v + more @ d))
    return K, k, max(abs((B.R @ t) @ d) for t in directions)


def _no_turn(directions, A, B):
    """The ends do not turn against each other about directions of B."""
    K = [(B.R @ t) @ (A.Jw - B.Jw) for t in directions]
    k = [-((B.R @ t) @ (A.wd - B.wd) + np.cross(B.w, B.R @ t) @ (A.w - B.w)) for t in directions]
    return K, k, 0.0


def _turned(A, B, directions):
    """How far directions of both ends are from each other."""
    return max(np.abs((A.R - B.R) @ t).max() for t in directions)


def _joined(*parts, gap=0.0):
    K, k, gaps = zip(*parts, strict=True)
    return [*chain(*K)], [*chain(*k)], max(*gaps, gap)


def _fixed(tie, A, B):
    return _joined(_same_point(A, B), _no_turn(np.eye(3), A, B), gap=_turned(A, B, np.eye(3)))


def _revolute(tie, A, B):
    *across, n = _frame(tie.axis)
    return _joined(_same_point(A, B), _no_turn(across, A, B), gap=_turned(A, B, [n]))


def _prismatic(tie, A, B):
    *across, _ = _frame(tie.axis)
    return _joined(_along(across, A, B), _no_turn(np.eye(3), A, B), gap=_turned(A, B, np.eye(3)))


def _planar(tie, A, B):
    *across, n = _frame(tie.axis)
    return _joined(_along([n], A, B), _no_turn(across, A, B), gap=_turned(A, B, [n]))


def _ball(tie, A, B):
    return _same_point(A, B)


def _universal(tie, A, B):
    a, b = A.R @ tie.axis / np.linalg.norm(tie.axis), B.R @ tie.second_axis / np.linalg.norm(tie.second_axis)
    a_rate, b_rate = np.cross(A.w, a), np.cross(B.w, b)
    a_change = np.cross(A.wd, a) + np.cross(A.w, a_rate)
    b_change = np.cross(B.wd, b) + np.cross(B.w, b_rate)
    K = np.cross(a, b) @ (A.Jw - B.Jw)
    k = -(a_change @ b + 2 * a_rate @ b_rate + a @ b_change)
    return _joined(_same_point(A, B), ([K], [k], abs(a @ b)))


def _rod(tie, A, B):
    d, v = A.p - B.p, A.v - B.v
    length = np.linalg.norm(d)
    K, k = d @ (A.J - B.J) / length, -(d @ (A.a - B.a) + v @ v) / length
    return [K], [k], abs(length - tie.length)


_ROWS = {
    "fixed": _fixed,
    "revolute": _revolute,
    "prismatic": _prismatic,
    "planar": _planar,
    "ball": _ball,
    "universal": _universal,
    "rod": _rod,
}
