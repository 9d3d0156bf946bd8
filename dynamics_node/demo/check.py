"""The independent computation: Pinocchio's inverse dynamics of the same URDF."""

import numpy as np

from dynamics_node.demo.panda import JOINTS, OMEGA

TOLERANCE = 1e-10  # of the torques, relative to the largest


class Oracle:
    """tau of the arm by Pinocchio. Raises ImportError that says what to install."""

    def __init__(self, urdf):
        try:
            import pinocchio
        except ImportError as error:
            raise ImportError("the monitor computes torques with Pinocchio: pip install pin") from error
        self._pin = pinocchio
        whole = pinocchio.buildModelFromXML(urdf)
        held = [whole.getJointId(name) for name in list(whole.names)[1:] if name not in JOINTS]
        self._model = pinocchio.buildReducedModel(whole, held, pinocchio.neutral(whole))
        self._data = self._model.createData()
        self._order = [self._model.joints[self._model.getJointId(name)].idx_v for name in JOINTS]

    def torques(self, q, qd, qdd):
        """(7,) in the order of JOINTS."""
        theirs = np.zeros((3, self._model.nv))
        theirs[:, self._order] = q, qd, qdd
        return self._pin.rnea(self._model, self._data, *theirs)[self._order].copy()


def torque_error(tau, expected):
    """max|tau - expected| / max(1e-6, max|expected|)."""
    return float(np.abs(tau - expected).max() / max(1e-6, np.abs(expected).max()))


def acceleration_tolerance(late):
    """What the acceleration may differ when the reference is `late` seconds older than the state."""
    from dynamics_node.demo.panda import AMPLITUDE

    return AMPLITUDE * OMEGA**3 * late + 1e-9
