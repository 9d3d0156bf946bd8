"""Random positions of a model."""

import numpy as np


def sample_positions(model, count, random: np.random.Generator, reach=2.5):
    """q (count, nq): every scalar joint in [-reach, reach] rad or m, floating bases there with any
    orientation."""
    q = random.uniform(-reach, reach, (count, model.nq))
    for joint in model.independent_joints:
        if joint.kind == "floating":
            quaternion = random.normal(size=(count, 4))
            q[:, joint.q.start + 3 : joint.q.stop] = quaternion / np.linalg.norm(quaternion, axis=1)[:, None]
    return q
