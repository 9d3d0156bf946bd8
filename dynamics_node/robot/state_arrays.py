"""The arrays of a robot's state: their shapes, random positions, and changes of positions along velocities
(the tangent space).
"""

import numpy as np

from dynamics_node.robot.robot import Robot, cached_on_robot

Shapes = dict[str, tuple[int, ...]]


def state_shapes(robot: Robot, names) -> Shapes:
    """{name: shape} of the named arrays of the robot's state."""
    rates = (robot.nv,)
    shapes: Shapes = {"q": (robot.nq,), "qd": rates, "qdd": rates, "tau": rates, "gravity": (3,)}
    shapes["f_ext"] = (robot.nbodies, 6)
    return {name: shapes[name] for name in names}


REACH = 2.5  # rad or m


def sample_positions(robot, count, random: np.random.Generator, reach=REACH):
    """q (count, nq): angles and lengths in [-reach, reach] rad or m, unit quaternions of any
    orientation."""
    q = random.uniform(-reach, reach, (count, robot.nq))
    for _, at in robot.quaternions:
        quaternion = random.normal(size=(count, 4))
        q[:, at] = quaternion / np.sqrt((quaternion * quaternion).sum(axis=1, keepdims=True))
    return q


def tangent_map(robot, q):
    """T (..., nq, nv) with dq/dt = T qd at q (..., nq): the identity, except for joints with a quaternion."""
    T = np.zeros((*q.shape[:-1], robot.nq, robot.nv), dtype=np.result_type(q.dtype, float))
    for joint in robot.independent_joints:
        T[..., joint.q, joint.v] = joint.type.tangent(q[..., joint.q])
    return T


def moved(robot, q, coordinates, step):
    """q (..., nq) after a unit of time in which k velocity coordinates, given by number, have the rates
    `step` (..., k) and all others zero. Exact to first order; quaternions stay of unit length."""
    places, columns, others = _movers(robot, tuple(coordinates))
    out = np.array(q, dtype=np.result_type(q, step))
    out[..., places] = q[..., places] + step[..., columns]
    for joint, moving, from_columns in others:
        rates = np.zeros((*step.shape[:-1], joint.type.nv), dtype=step.dtype)
        rates[..., moving] = step[..., from_columns]
        out[..., joint.q] = joint.type.moved(q[..., joint.q], rates)
    return out


@cached_on_robot
def _movers(robot, coordinates):
    """For scalar joints, their indices in q and among the coordinates. For every other moving joint: itself,
    its moving velocities, and their indices among the coordinates."""
    column = {v: k for k, v in enumerate(coordinates)}
    places, columns, others = [], [], []
    for joint in robot.independent_joints:
        moving = [v - joint.v.start for v in range(joint.v.start, joint.v.stop) if v in column]
        indices = [column[joint.v.start + k] for k in moving]
        if moving and joint.type.is_scalar:
            places.append(joint.q.start)
            columns += indices
        elif moving:
            others.append((joint, moving, indices))
    return places, columns, others
