"""Inertial parameters that cannot matter: no torque of any joint ever sees them."""

import numpy as np

from dynamics_node.algorithms import frame_jacobian
from dynamics_node.algorithms.accelerations import body_motions, body_wrench
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.robot import Robot
from dynamics_node.robot.random_positions import sample_positions
from dynamics_node.symbolic import pseudo_inertia, skew, transpose

PARAMETERS = ("m", "m x", "m y", "m z", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")  # about the body's origin
STATES = 20
NOTHING = 1e-9  # of a column beside the largest


def unseen_parameters(model: Robot, seed=0):
    """{body: names in PARAMETERS} of those whose column of the torque regressor, J^T times the wrench that
    one unit of the parameter takes, is zero at random states."""
    random = np.random.default_rng(seed)
    q = sample_positions(model, STATES, random)
    qd, qdd = random.uniform(-1, 1, (2, STATES, model.nv))
    motions = body_motions(model, joint_transforms(model, q), qd, qdd)
    units, found = pseudo_inertia(_units()), {}
    for body, motion in zip(model.bodies, motions, strict=True):
        wrenches = np.stack([body_wrench(motion.U, motion.a, unit) for unit in units], axis=-1)
        columns = transpose(frame_jacobian(model, q, body.name, "body")) @ wrenches
        sizes = np.linalg.norm(columns, axis=(0, 1))
        unseen = sizes <= NOTHING * max(sizes.max(), 1e-300)
        if unseen.any():
            found[body.name] = tuple(name for name, zero in zip(PARAMETERS, unseen, strict=True) if zero)
    return found


def _units():
    """(10, 6, 6): spatial inertias of one parameter each."""
    units = np.zeros((10, 6, 6))
    units[0, 3:, 3:] = np.eye(3)
    for k in range(3):
        cross = skew(np.eye(3)[k])
        units[1 + k, :3, 3:], units[1 + k, 3:, :3] = cross, cross.T
    for k, (a, b) in enumerate(zip(*np.triu_indices(3), strict=True)):
        units[4 + k, a, b] = units[4 + k, b, a] = 1.0
    return units
