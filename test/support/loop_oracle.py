"""Pinocchio as the oracle of Robots with closed loops, gears and belts.

Its tree has every joint free. The constraints follow from the text of the robot and the velocities of both ends of a
loop. An SVD over all rows solves them.
"""

from itertools import chain
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from linkages import End, Tie
from oracle import Oracle, Spread, built, pin


def closures(text):
    """The Ties of a text, and {joint: weight} of every gear or belt: a weighted sum that stays zero."""
    robot = ElementTree.fromstring(text)
    up = {joint.find("child").get("link"): joint for joint in robot.iterfind("joint")}
    return [_tie(loop) for loop in robot.iterfind("loop")], [
        _gear(up, own) for own in robot.iterfind("coupling")
    ]


def _numbers(element, name, default="0 0 0"):
    return np.array((default if element is None else element.get(name, default)).split(), dtype=float)


def _tie(loop):
    ends = []
    for side in (loop.find("predecessor"), loop.find("successor")):
        origin = side.find("origin")
        R = pin.rpy.rpyToMatrix(*map(float, _numbers(origin, "rpy")))
        ends.append(End(side.get("link"), R, _numbers(origin, "xyz")))
    second, length = loop.find("axis2"), loop.find("length")
    return Tie(
        loop.get("name"),
        loop.get("type"),
        *ends,
        _numbers(loop.find("axis"), "xyz", "1 0 0"),
        None if second is None else _numbers(second, "xyz"),
        None if length is None else float(length.get("value")),
    )


def _gear(up, coupling):
    """{joint: weight}: ratio for joints above the predecessor only, -1 for joints above the successor only."""
    ways = [_way(up, coupling.find(side).get("link")) for side in ("predecessor", "successor")]
    factors = (float(coupling.find("ratio").get("value")), -1.0)
    own = [[name for name in way if name not in other] for way, other in zip(ways, ways[::-1], strict=True)]
    return {name: factor for way, factor in zip(own, factors, strict=True) for name in way}


def _way(up, link):
    """The movable joints between a link and the root."""
    names = []
    while link in up:
        joint = up[link]
        names += [joint.get("name")] if joint.get("type") != "fixed" else []
        link = joint.find("parent").get("link")
    return names


class LoopOracle(Oracle):
    """A Robot with loops, gears or belts, and its text: Pinocchio's tree, in which every joint
    is free, and the equations between them."""

    def __init__(self, text, model):
        self.ties, self.gears = closures(text)
        if any(body.joint.kind == "ball" for body in model.bodies):
            theirs = built(model)
        else:
            in_file = 'type="floating"' in text
            root = (pin.JointModelFreeFlyer(),) if model.floating_base and not in_file else ()
            theirs = pin.buildModelFromXML(text, *root)
        self._take(model, theirs)
        self.pin.gravity.linear[:] = model.gravity
        self.own = self.order[model.independent]
        self.dependent = np.setdiff1d(np.arange(self.pin.nv), self.own)

    def rows(self, q, rates):
        """K (rows, nv of Pinocchio) and k of K qdd = k at rates of every joint, and the gap of every loop."""
        at = self.q(q)
        pin.forwardKinematics(self.pin, self.data, at, rates, np.zeros(self.pin.nv))
        pin.computeJointJacobians(self.pin, self.data, at)
        blocks = [
            _ROWS[tie.kind](tie, self._end(tie.predecessor), self._end(tie.successor)) for tie in self.ties
        ]
        K = [np.array(K).reshape(-1, self.pin.nv) for K, _, _ in blocks]
        k, gaps = [np.ravel(k) for _, k, _ in blocks], [gap for _, _, gap in blocks]
        for weights in self.gears:
            row = np.zeros(self.pin.nv)
            joints = [self.pin.joints[self.pin.getJointId(name)] for name in weights]
            row[[joint.idx_v for joint in joints]] = list(weights.values())
            K, k = [*K, row[None]], [*k, np.zeros(1)]
            if all(joint.nq == 1 for joint in joints):
                gaps.append(np.dot(list(weights.values()), at[[joint.idx_q for joint in joints]]))
        K, k = [np.zeros((0, self.pin.nv)), *K], [np.zeros(0), *k]
        return np.concatenate(K), np.concatenate(k), np.array(gaps)

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
        """The largest gap of a loop at q, m or 1."""
        return np.abs(self.rows(q, np.zeros(self.pin.nv))[2]).max(initial=0.0)

    def spread(self, q, qd):
        n, own, dependent = self.pin.nv, self.own, self.dependent
        K, _, _ = self.rows(q, np.zeros(n))
        G, g = np.zeros((n, len(own))), np.zeros(n)
        G[own, np.arange(len(own))] = 1.0
        if not len(dependent):
            return Spread(G, g)
        sizes = np.linalg.svd(K[:, dependent], compute_uv=False)
        inverse = np.linalg.pinv(K[:, dependent], rcond=1e-13)
        G[dependent] = -inverse @ K[:, own]
        g[dependent] = inverse @ self.rows(q, G @ qd)[1]
        last = sizes[len(dependent) - 1] if len(sizes) >= len(dependent) else 0.0
        return Spread(G, g, sizes[0] / last if last > 0 else np.inf)

    def spread_over_bodies(self, q, qd):
        """The spread with the joints in the order of our bodies."""
        G, g, condition = self.spread(q, qd)
        return Spread(G[self.every], g[self.every], condition)

    def forward(self, q, qd, tau, f_ext=None):
        """qdd (nv,), solved together with the constraint forces."""
        rates = self.spread(q, qd).G @ qd
        K, k, _ = self.rows(q, rates)
        n, effort, M = self.pin.nv, np.zeros(self.pin.nv), self.mass_matrix_of_all(q)
        effort[self.own] = tau
        M[np.ix_(self.own, self.own)] += 0.0 if self.ties else self.rotors
        system = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
        right = np.concatenate([effort - self.torques_of_all(q, rates, np.zeros(n), f_ext), k])
        return np.linalg.lstsq(system, right, rcond=1e-13)[0][:n][self.own]


class _Moving(NamedTuple):
    """A frame in world axes: rotation and origin; Jacobian, velocity, and acceleration at qdd = 0
    of the origin and of the orientation."""

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
    """Two directions perpendicular to an axis, and the axis."""
    n = axis / np.linalg.norm(axis)
    first = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first /= np.linalg.norm(first)
    return first, np.cross(n, first), n


def _same_point(A, B):
    return list(A.J - B.J), list(B.a - A.a), np.abs(A.p - B.p).max()


def _along(directions, A, B):
    """The distance along directions of B is constant."""
    K, k, d, v = [], [], A.p - B.p, A.v - B.v
    for t in directions:
        t = B.R @ t
        turning = np.cross(B.w, t)
        K.append(t @ (A.J - B.J) + np.cross(t, d) @ B.Jw)
        more = np.cross(B.wd, t) + np.cross(B.w, turning)
        k.append(-(t @ (A.a - B.a) + 2 * turning @ v + more @ d))
    return K, k, max(abs((B.R @ t) @ d) for t in directions)


def _no_turn(directions, A, B):
    """The relative rotation about directions of B is zero."""
    K = [(B.R @ t) @ (A.Jw - B.Jw) for t in directions]
    k = [-((B.R @ t) @ (A.wd - B.wd) + np.cross(B.w, B.R @ t) @ (A.w - B.w)) for t in directions]
    return K, k, 0.0


def _turned(A, B, directions):
    """The largest difference between directions of both ends."""
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
    "fixed": _fixed, "revolute": _revolute, "prismatic": _prismatic, "planar": _planar, "ball": _ball,
    "universal": _universal, "rod": _rod,
}  # fmt: skip
