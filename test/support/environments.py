"""Payloads, wrenches and tilts, and a Panda with them in Pinocchio."""

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")

HAND = "panda_hand"
MASS, COM = 1.5, (0.02, -0.03, 0.1)
MOMENTS = np.array([[0.02, 0.001, -0.002], [0.001, 0.03, 0.003], [-0.002, 0.003, 0.025]])
PUSHED = {HAND: ((0.3, -0.2, 0.5), (5.0, -8.0, 12.0)), "panda_link4": ((0.1, 0.2, 0.3), (-4.0, 2.0, 1.0))}
TILT = pin.rpy.rpyToMatrix(0.4, -0.7, 0.3)  # from the tilted root to the world
UP = TILT.T @ np.array([0.0, 0.0, 9.81])  # reading of an accelerometer in root axes


def quaternion(R):
    """x y z w."""
    return pin.Quaternion(R).coeffs()


def placement(oracle, link):
    frame = oracle.pin.frames[oracle.pin.getFrameId(link)]
    return frame.parentJoint, frame.placement


def load(oracle, link=HAND, mass=MASS):
    """Add a payload to a link of Pinocchio's model."""
    joint, place = placement(oracle, link)
    oracle.pin.inertias[joint] += place.act(pin.Inertia(mass, np.array(COM), MOMENTS))
    oracle.data = oracle.pin.createData()


def with_wrench(oracle, case, pushed):
    """Torques by Pinocchio; pushed: {link: (moment, force)} on the links."""
    forces = pin.StdVec_Force()
    forces.extend([pin.Force.Zero() for _ in range(oracle.pin.njoints)])
    for link, (moment, force) in pushed.items():
        joint, place = placement(oracle, link)
        forces[joint] += place.act(pin.Force(np.array(force), np.array(moment)))
    return pin.rnea(oracle.pin, oracle.data, oracle.q(case.q), case.qd, 0 * case.q, forces)
