"""A quadruped on its feet: the file of its contacts, and torques and forces by Pinocchio's matrices."""

import numpy as np

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
FILE = f"contacts: [{{link: [{', '.join(FEET)}], friction: 0.8}}]\n"


def standing(oracle, q, qd, qdd, feet=FEET):
    """tau (nv,), whose first six are the residual, and the shortest forces {foot: (3,)} in axes of the world."""
    needed = oracle.inverse(q, qd, qdd)
    if not feet:
        return needed, {}
    J = np.concatenate([oracle.jacobian(q, foot)[3:] for foot in feet])
    forces = np.linalg.lstsq(J[:, :6].T, needed[:6], rcond=1e-9)[0]
    return needed - J.T @ forces, dict(zip(feet, forces.reshape(-1, 3), strict=True))
