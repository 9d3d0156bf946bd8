"""Closed positions by SciPy's Levenberg-Marquardt method, on rotation vectors and Pinocchio's kinematics of the tree."""

import numpy as np
from loop_oracle import closures
from oracle import pin
from scipy.optimize import least_squares

STARTS, STEPS = 16, 200
CLOSED = 1e-9  # m or rad
FAR = 1e3  # rad or m; one solution had a slide of 3e14 m, where numbers are too coarse for any gap
NUDGE = 1e-6  # rad or m, of central differences
RANK = 1e-5


class ClosingReference:
    """The text of a robot with loops, without gears and ball joints."""

    def __init__(self, text):
        self.ties, _ = closures(text)
        self.model = pin.buildModelFromXML(text)
        self.data = self.model.createData()
        self.ends = [[self._end(end) for end in tie[2:4]] for tie in self.ties]
        self.neutral, self.nv = pin.neutral(self.model), self.model.nv

    def _end(self, end):
        """Its joint, and its placement there."""
        frame = self.model.frames[self.model.getFrameId(end.link)]
        return frame.parentJoint, frame.placement * pin.SE3(end.rotation, end.origin)

    def openings(self, v, loops):
        """(any,): m or rad of some loops after a step v (nv,) from neutral; zeros, since MINPACK needs nv rows."""
        pin.forwardKinematics(self.model, self.data, pin.integrate(self.model, self.neutral, v))
        pairs = ((self.ties[k], self.ends[k]) for k in loops)
        rows = [_OPENINGS[tie.kind](tie, self._relative(*ends)) for tie, ends in pairs]
        return np.concatenate([*rows, np.zeros(self.nv)])

    def _relative(self, a, b):
        return (self.data.oMi[a[0]] * a[1]).actInv(self.data.oMi[b[0]] * b[1])

    def jacobian(self, v, loops):
        """Derivatives (any, nv) of the openings, by differences over the relative poses of the ends."""
        pin.computeJointJacobians(self.model, self.data, pin.integrate(self.model, self.neutral, v))
        blocks = [self._rates(self.ties[k], *self.ends[k]) for k in loops]
        return np.vstack([*blocks, np.zeros((self.nv, self.nv))])

    def _rates(self, tie, a, b):
        M, opening = self._relative(a, b), _OPENINGS[tie.kind]
        J_a, J_b = (place.toActionMatrixInverse() @ self._jacobian(joint) for joint, place in (a, b))
        moves = [(M * pin.exp6(NUDGE * way), M * pin.exp6(-NUDGE * way)) for way in np.eye(6)]
        by_pose = np.stack(
            [(opening(tie, far) - opening(tie, back)) / (2 * NUDGE) for far, back in moves], -1
        )
        return by_pose @ (J_b - M.toActionMatrixInverse() @ J_a)

    def _jacobian(self, joint):
        if joint == 0:
            return np.zeros((6, self.nv))
        return pin.getJointJacobian(self.model, self.data, joint, pin.LOCAL)

    def closed(self, random, loops):
        """The mobility of some loops at each of their closed positions, from neutral and from random starts."""
        for k in range(STARTS):
            start = random.uniform(-np.pi, np.pi, self.nv) * (k > 0)
            solution = least_squares(
                self.openings, start, self.jacobian, method="lm", max_nfev=STEPS, args=(loops,)
            )
            if np.abs(solution.fun).max() < CLOSED and np.abs(solution.x).max() < FAR:
                moving = np.abs(solution.jac).max(axis=0) > RANK
                yield int(moving.sum() - np.linalg.matrix_rank(solution.jac, RANK))


# --- openings by the pose M of the successor in axes of the predecessor ---------------------------------------


def _unit(axis):
    return axis / np.linalg.norm(axis)


def _turn(tie, M):
    return pin.log3(M.rotation)


def _swing(tie, M):
    """The smallest rotation that aligns the axes."""
    n = _unit(tie.axis)
    sine, cosine = np.cross(n, M.rotation @ n), n @ M.rotation @ n
    size = np.linalg.norm(sine)
    return sine * (np.arctan2(size, cosine) / size if size > 0 else 1.0)


def _shift(tie, M):
    return M.translation


def _across(tie, M):
    return np.cross(M.rotation.T @ M.translation, _unit(tie.axis))


def _along(tie, M):
    return np.array([M.rotation.T @ M.translation @ _unit(tie.axis)])


def _cross(tie, M):
    return np.array([_unit(tie.axis) @ M.rotation @ _unit(tie.second_axis)])


def _length(tie, M):
    return np.array([np.linalg.norm(M.translation) - tie.length])


def _both(first, second):
    return lambda tie, M: np.concatenate([first(tie, M), second(tie, M)])


_OPENINGS = {
    "fixed": _both(_turn, _shift),
    "revolute": _both(_swing, _shift),
    "prismatic": _both(_turn, _across),
    "planar": _both(_swing, _along),
    "universal": _both(_cross, _shift),
    "ball": _shift,
    "rod": _length,
}
