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
    """tau of some joints, the others held at zero."""

    def __init__(self, urdf, joints):
        self._pin = require_pinocchio()
        whole = self._pin.buildModelFromXML(urdf)
        held = [whole.getJointId(name) for name in list(whole.names)[1:] if name not in joints]
        self._model = self._pin.buildReducedModel(whole, held, self._pin.neutral(whole))
        self._data = self._model.createData()
        self._order = [self._model.joints[self._model.getJointId(name)].idx_v for name in joints]

    def torques(self, positions, q, qd, qdd):
        """(n,) at q, qd, qdd (n,) of the joints; positions: {joint: position} of all that is published."""
        theirs = np.zeros((3, self._model.nv))
        theirs[:, self._order] = q, qd, qdd
        return self._pin.rnea(self._model, self._data, *theirs)[self._order].copy()

    def drift(self, positions):
        """There are no loops that could open."""


def torque_error(tau, expected):
    """max|tau - expected| / max(1e-6, max|expected|)."""
    return float(np.abs(tau - expected).max() / max(1e-6, np.abs(expected).max()))
