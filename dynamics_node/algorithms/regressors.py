"""Regressors: the matrices of torques, momenta and energies, which are linear in the inertial parameters.

Columns 10 i to 10 i + 9 belong to body i: mass m (kg), first moments m c (kg m), and the moments of inertia
xx, xy, yy, xz, yz, zz (kg m^2) about the body's origin, all in its axes; see `inertial_parameters`. The
wrench that moves a body is linear in these (Atkeson, An, Hollerbach 1986). Joint torques are its components
along the directions of motion, propagated outward to the body; only joints above the body have rows.
"""

import numpy as np

from dynamics_node.algorithms.frame_kinematics import body_jacobians
from dynamics_node.algorithms.recursion import joint_motions, outward, root_acceleration
from dynamics_node.algorithms.rnea import body_motions
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_motion, matvec, skew, transformed_inertia, transpose

PER_BODY = 10
NAMES = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
_MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))  # places of Ixx ... Izz


def inertial_parameters(inertias):
    """(..., 10) of spatial inertias (..., 6, 6), in the order of the columns."""
    moment = inertias[..., :3, 3:]
    first = (moment[..., 2, 1], moment[..., 0, 2], moment[..., 1, 0])
    moments = (inertias[..., i, j] for i, j in _MOMENTS)
    return np.stack([inertias[..., 5, 5], *first, *moments], axis=-1)


def inertias_of_parameters(parameters):
    """The inverse of `inertial_parameters`: (..., 6, 6) of (..., 10)."""
    inertias = np.zeros((*parameters.shape[:-1], 6, 6), parameters.dtype)
    for k, (i, j) in enumerate(_MOMENTS):
        inertias[..., i, j] = inertias[..., j, i] = parameters[..., 4 + k]
    first = skew(parameters[..., 1:4])
    inertias[..., :3, 3:], inertias[..., 3:, :3] = first, transpose(first)
    inertias[..., 3:, 3:] = parameters[..., :1, None] * np.eye(3)
    return inertias


# --- joint torques and generalized momenta ------------------------------------------------------------------


def joint_torque_regressor(robot, q, qd, qdd, gravity=None, link=None):
    """Y (..., nv, 10 nbodies) with rnea(q, qd, qdd) = Y p + armature qdd, p the inertial parameters.
    Arguments as in `rnea`. link: Y (..., nv, 10) of a payload of this link, about its origin in its axes.
    Raises KeyError for an unknown link."""
    X_up = joint_transforms(robot, q)
    motions = body_motions(robot, X_up, qd, qdd, gravity)
    Y = _joint_rows(robot, q, body_jacobians(robot, X_up), [_of_wrench(motion) for motion in motions])
    return Y if link is None else Y @ link_columns(robot, link)


def momentum_regressor(robot, q, qd, gravity=None, link=None):
    """P and R (..., nv, 10 nbodies) with generalized momentum = P p + armature qd and rate = R p: d(P p +
    armature qd)/dt = tau + R p needs no acceleration. Arguments as in `generalized_momentum`; link as in
    `joint_torque_regressor`."""
    X_up = joint_transforms(robot, q)
    velocities = _each(robot, outward(robot, X_up, joint_motions(robot, qd)))
    still = np.zeros((*q.shape[:-1], robot.nbodies, 6))
    falls = _each(robot, outward(robot, X_up, still, -root_acceleration(robot, gravity)))
    starts = [_turning(v, body.joint.S) for v, body in zip(velocities, robot.bodies, strict=True)]
    J, turning = body_jacobians(robot, X_up), body_jacobians(robot, X_up, starts)
    momenta = [_of_momentum(v) for v in velocities]
    P = _joint_rows(robot, q, J, momenta)
    R = _joint_rows(robot, q, J, [_of_momentum(fall) for fall in falls])
    R = R + _joint_rows(robot, q, turning, momenta)
    if link is None:
        return P, R
    T = link_columns(robot, link)
    return P @ T, R @ T


def link_columns(robot, link):
    """T (10 nbodies, 10): a payload of a link, about the link's origin in its axes, as inertial parameters of
    the bodies; zero for a link fixed to the root. Raises KeyError for an unknown link."""
    frame, T = robot.frame(link), np.zeros((robot.nbodies, PER_BODY, PER_BODY))
    if frame.body >= 0:
        moved = transformed_inertia(frame.X, inertias_of_parameters(np.eye(PER_BODY)))
        T[frame.body] = inertial_parameters(moved).T
    return T.reshape(-1, PER_BODY)


def energy_regressor(robot, q, qd, gravity=None):
    """(kinetic, potential), each (..., 10 nbodies), without the rotors' armature qd^2 / 2. Potential energy
    is zero at the origin of the root. Arguments as in `generalized_momentum`."""
    X_up = joint_transforms(robot, q)
    velocities = _each(robot, outward(robot, X_up, joint_motions(robot, qd)))
    kinetic = [0.5 * matvec(transpose(_of_momentum(v)), v) for v in velocities]
    return _in_line(robot, q, kinetic), _in_line(robot, q, _weights(robot, X_up, gravity))


def _joint_rows(robot, q, jacobians, regressors):
    """Rows of joints: J^T A of every body with its regressor A (..., 6, 10)."""
    dtype = np.result_type(q.dtype, float)
    Y = np.zeros((*q.shape[:-1], robot.nv, robot.nbodies, PER_BODY), dtype)
    for i, ((places, J), A) in enumerate(zip(jacobians, regressors, strict=True)):
        Y[..., places, i, :] = transpose(J) @ A
    return Y.reshape(*q.shape[:-1], robot.nv, robot.nbodies * PER_BODY)


def _in_line(robot, q, rows):
    joined = np.stack(rows, axis=-2) if rows else np.zeros((*q.shape[:-1], 0, PER_BODY))
    return joined.reshape(*q.shape[:-1], robot.nbodies * PER_BODY)


def _each(robot, vectors):
    return [vectors[..., i, :] for i in range(robot.nbodies)]


def _turning(v, S):
    """v x S for the columns of S (6, k)."""
    return np.stack([cross_motion(v, column) for column in S.T], axis=-1)


# --- one body -----------------------------------------------------------------------------------------------


def _of_wrench(motion):
    """A (..., 6, 10): the wrench A p produces this motion of a body."""
    turning = _moments(motion.wd) + skew(motion.w) @ _moments(motion.w)
    return _stacked(motion.a, turning, motion.U)


def _of_momentum(v):
    """A (..., 6, 10): the momentum of a body that moves with v (..., 6)."""
    return _stacked(v[..., 3:], _moments(v[..., :3]), skew(v[..., :3]))


def _stacked(a, turning, U):
    """Columns of the mass for a (..., 3), of the first moments for a and U (..., 3, 3), of the moments of
    inertia for turning (..., 3, 6)."""
    a, turning, U = _over_one_batch(a, turning, U)
    top = np.concatenate([np.zeros_like(a)[..., None], -skew(a), turning], axis=-1)
    bottom = np.concatenate([a[..., None], U, np.zeros_like(turning)], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


def _over_one_batch(a, turning, U):
    batch = np.broadcast_shapes(a.shape[:-1], turning.shape[:-2], U.shape[:-2])
    arrays = (a, 1), (turning, 2), (U, 2)
    return [np.broadcast_to(array, (*batch, *array.shape[-tail:])) for array, tail in arrays]


def _moments(x):
    """(..., 3, 6): I x as a function of the moments of inertia I in the order of the columns."""
    columns = np.zeros((*x.shape[:-1], 3, 6), x.dtype)
    for k, (i, j) in enumerate(_MOMENTS):
        columns[..., i, k] = x[..., j]
        columns[..., j, k] = x[..., i]
    return columns


def _weights(robot, X_up, gravity):
    """[(..., 10)]: -g p and, in the axes of each body, -g, of bodies at p."""
    fall = -root_acceleration(robot, gravity)[..., 3:]
    falls: list[np.ndarray] = []
    depths: list[np.ndarray] = []  # g p (..., 1)
    rows = []
    for i, parent in enumerate(robot.parents):
        before, depth = (falls[parent], depths[parent]) if parent >= 0 else (fall, np.zeros(1))
        depths.append(depth + (before * X_up.origin(i)).sum(axis=-1, keepdims=True))
        falls.append(X_up.vector(i, before))
        parts = (depths[i], falls[i], np.zeros(6))
        batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        joined = [np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts]
        rows.append(-np.concatenate(joined, axis=-1))
    return rows


# --- joints -------------------------------------------------------------------------------------------------


def joint_regressor(robot, q, qd, qdd):
    """(rotor, viscous, offset, spring), each (..., nv, axles): torques per unit of rotor inertia (kg m^2),
    viscous coefficient (N m s/rad), offset (N m) and spring (N m/rad, at rest at position 0) of the joints,
    or the same in m and N. Columns: every coordinate, then every shared joint, see Robot.axle_map; zero for
    joints with several coordinates. Coulomb friction is the offset times the sign of the rate, see
    identification."""
    joints = [joint for joint in robot.independent_joints if joint.type.is_scalar]
    places = np.array([joint.v.start for joint in joints], dtype=int)
    positions = q[..., [joint.q.start for joint in joints]]
    columns = []
    shared, W = robot.shared_joints, robot.axle_map[robot.nv :]
    of_shared = (
        [joint.rate(qdd) for joint in shared],
        [joint.rate(qd) for joint in shared],
        [np.ones_like(joint.position(q)) for joint in shared],
        [joint.position(q) - joint.offset for joint in shared],  # frames have the same position
    )
    single_values = (qdd[..., places], qd[..., places], np.ones_like(positions), positions)
    for values, more in zip(single_values, of_shared, strict=True):
        matrix = np.zeros(
            (*q.shape[:-1], robot.nv, len(robot.axle_map)), dtype=np.result_type(q.dtype, float)
        )
        matrix[..., places, places] = values
        for k, value in enumerate(more):
            matrix[..., robot.nv + k] = value * W[k]
        columns.append(matrix)
    return tuple(columns)
