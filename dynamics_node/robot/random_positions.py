"""Random positions of a robot."""

import numpy as np

REACH = 2.5  # rad or m


def sample_positions(model, count, random: np.random.Generator, reach=REACH):
    """q (count, nq): angles and lengths in [-reach, reach] rad or m, unit quaternions of any
    orientation."""
    q = random.uniform(-reach, reach, (count, model.nq))
    for _, at in model.quaternions:
        quaternion = random.normal(size=(count, 4))
        q[:, at] = quaternion / np.sqrt((quaternion * quaternion).sum(axis=1, keepdims=True))
    return q
