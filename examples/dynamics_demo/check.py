"""The independent computation: Pinocchio's inverse dynamics of the same URDF."""

import numpy as np

TOLERANCE = 1e-10  # of the torques, relative to the largest


def require_pinocchio():
    """The pinocchio module. Raises ImportError that says what to install."""
    try:
        import pinocchio
    except ImportError as error:
        raise ImportError("the monitor computes torques with Pinocchio: pip install pin") from error
    return pinocchio


class ArmOracle:
    """Torques (n,) of some joints of a URDF; the others stay at zero.

    rotors: inertias (n,) at the joints; payload: of `tracked_arm`. Friction is the URDF's, by the law of
    docs/ros.md: damping qd + friction tanh(qd / 0.01 rad/s).
    """

    def __init__(self, urdf, joints, rotors, payload):
        pin = self._pin = require_pinocchio()
        whole = pin.buildModelFromXML(urdf)
        fixed = [whole.getJointId(name) for name in list(whole.names)[1:] if name not in joints]
        self._model = model = pin.buildReducedModel(whole, fixed, pin.neutral(whole))
        frame = model.frames[model.getFrameId(payload.link)]
        ball = pin.Inertia(payload.mass, np.array(payload.center), payload.moment * np.eye(3))
        model.appendBodyToJoint(frame.parentJoint, ball, frame.placement)
        self._order = [model.joints[model.getJointId(name)].idx_v for name in joints]
        armature = np.zeros(model.nv)
        armature[self._order] = rotors
        model.armature = armature
        self._damping, self._friction = model.damping[self._order], model.friction[self._order]
        self._data = model.createData()

    def torques(self, q, qd, qdd):
        """(n,) of the full dynamics at q, qd, qdd (n,)."""
        tau = self._pin.rnea(self._model, self._data, *map(self._theirs, (q, qd, qdd)))[self._order]
        return tau + self._damping * qd + self._friction * np.tanh(qd / 0.01)

    def gravity(self, q):
        """(n,) that hold the arm still at q (n,)."""
        tau = self._pin.computeGeneralizedGravity(self._model, self._data, self._theirs(q))
        return tau[self._order].copy()

    def _theirs(self, values):
        theirs = np.zeros(self._model.nv)
        theirs[self._order] = values
        return theirs


def torque_error(tau, expected):
    """max|tau - expected| / max(1e-6, max|expected|)."""
    return float(np.abs(tau - expected).max() / max(1e-6, np.abs(expected).max()))
