"""Result types of quantities with several results. Leading axes are the batch."""

from typing import NamedTuple

import numpy as np

from dynamics_node.display import with_field_repr


@with_field_repr
class HybridDynamics(NamedTuple):
    """qdd, tau (..., nv): complete, with the known entries unchanged."""

    qdd: np.ndarray
    tau: np.ndarray


@with_field_repr
class ContactForwardDynamics(NamedTuple):
    """qdd (..., nv); contact_forces (..., rows) on the links, in the axes of the contacts."""

    qdd: np.ndarray
    contact_forces: np.ndarray


@with_field_repr
class ContactInverseDynamics(NamedTuple):
    """tau (..., nv); contact_forces (..., rows) on the links, in the axes of the contacts."""

    tau: np.ndarray
    contact_forces: np.ndarray


@with_field_repr
class ContactHybridDynamics(NamedTuple):
    """qdd, tau (..., nv): complete, with the known entries unchanged; contact_forces (..., rows) as above."""

    qdd: np.ndarray
    tau: np.ndarray
    contact_forces: np.ndarray


@with_field_repr
class NearestDynamics(NamedTuple):
    """Dynamics of states that may be singular positions of closed loops, the result of `nearest`.

    Joints of the tree are the independent and the implicit ones, in the order of `robot.tree.v_names`. Units
    are rad, m, their rates, N m and N. Rows of bases are orthonormal, with zeros for missing ones in a batch.

    Attributes
    ----------
    qdd, tau : ndarray (..., nv)
        Accelerations and torques of the independent joints. Known accelerations that are impossible at the
        position are replaced by the nearest possible ones, by least squares of their entries. The
        smallest of several possible torques is chosen.
    rates, accelerations : ndarray (..., nv of the tree)
        Those of all joints of the tree. Impossible entries of qd are replaced likewise.
    self_motions : ndarray (..., m, nv of the tree)
        Basis of the rates that are possible while the independent joints stand still. qd does not determine
        rates along these directions.
    internal_torques : ndarray (..., k, nv)
        Basis of the torques that only load the loops, and move nothing. Accelerations do not determine
        torques along these directions. Rates of the independent joints along them are impossible.
    gap : ndarray (..., 2)
        The largest relative singular value that counts as zero, and the smallest that does not. The limit is
        1e-6; with one of them near it, the position is nearly singular.

    Examples
    --------
    The lower links of a five-bar are in line. Both motors stand still, and the point between these links
    can move.

    >>> from dynamics_demo.robots import five_bar
    >>> robot, b = dn.parse_robot(five_bar()), np.arccos(0.75)
    >>> q, qd = np.array([np.pi - b, b - np.pi, b, np.pi - b]), np.zeros(2)
    >>> forward = dn.build(robot, "forward_dynamics", backend="numpy", singular="nearest")
    >>> forward(q, qd, [1.0, 0.0]).round(2)  # instead of an error
    array([2.45, 2.45])
    >>> result = forward.nearest(q, qd, [1.0, 0.0])
    >>> result.internal_torques.round(2)  # these only press on the lower links
    array([[ 0.71, -0.71]])
    >>> for motion in result.self_motions:
    ...     dict(zip(robot.tree.v_names, (motion.round(2) + 0.0).tolist()))
    {'j1': 0.0, 'j3': 0.71, 'j2': 0.0, 'j4': -0.71}
    """

    qdd: np.ndarray
    tau: np.ndarray
    rates: np.ndarray
    accelerations: np.ndarray
    self_motions: np.ndarray
    internal_torques: np.ndarray
    gap: np.ndarray


@with_field_repr
class Rollout(NamedTuple):
    """States q (..., steps + 1, nq), qd (..., steps + 1, nv) along steps of time; the first is the start."""

    q: np.ndarray
    qd: np.ndarray


@with_field_repr
class ContactRollout(NamedTuple):
    """A Rollout with contacts, limits or friction of joints.

    Attributes
    ----------
    q, qd : ndarray (..., steps + 1, nq), (..., steps + 1, nv)
        States; the first is the start.
    contact_forces : ndarray (..., steps, 3 touches)
        Forces on the links, N: for every contact, for every plane, along the axes of the plane, the normal
        last.
    residual : ndarray (..., steps)
        Largest change of an impulse in the last sweep, N s or N m s: zero once the sweeps have converged.
    """

    q: np.ndarray
    qd: np.ndarray
    contact_forces: np.ndarray
    residual: np.ndarray


@with_field_repr
class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of tau by q (along the tangent space), qd and qdd; the last is M."""

    dtau_dq: np.ndarray
    dtau_dqd: np.ndarray
    dtau_dqdd: np.ndarray


@with_field_repr
class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of qdd by q (along the tangent space), qd and tau; the last is M^-1."""

    dqdd_dq: np.ndarray
    dqdd_dqd: np.ndarray
    dqdd_dtau: np.ndarray


@with_field_repr
class HybridDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of the unknowns, coordinate by coordinate, by q (along the tangent space), by
    qd and by the knowns: row k is of qdd at a forward coordinate k, of tau elsewhere; column k of `dknown` is
    by tau at a forward coordinate k, by qdd elsewhere."""

    dq: np.ndarray
    dqd: np.ndarray
    dknown: np.ndarray


@with_field_repr
class ContactInverseDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of tau and (..., rows, nv) of contact_forces by q (along the tangent space),
    qd and qdd."""

    dtau_dq: np.ndarray
    dtau_dqd: np.ndarray
    dtau_dqdd: np.ndarray
    dforces_dq: np.ndarray
    dforces_dqd: np.ndarray
    dforces_dqdd: np.ndarray


@with_field_repr
class ContactForwardDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of qdd and (..., rows, nv) of contact_forces by q (along the tangent space),
    qd and tau."""

    dqdd_dq: np.ndarray
    dqdd_dqd: np.ndarray
    dqdd_dtau: np.ndarray
    dforces_dq: np.ndarray
    dforces_dqd: np.ndarray
    dforces_dtau: np.ndarray


@with_field_repr
class ContactHybridDynamicsDerivatives(NamedTuple):
    """Derivatives (..., nv, nv) of the unknowns as in HybridDynamicsDerivatives, and (..., rows, nv) of
    contact_forces."""

    dq: np.ndarray
    dqd: np.ndarray
    dknown: np.ndarray
    dforces_dq: np.ndarray
    dforces_dqd: np.ndarray
    dforces_dknown: np.ndarray


@with_field_repr
class InverseDynamicsSecondDerivatives(NamedTuple):
    """Second derivatives (..., nv, nv, nv) of tau: entry i, j, k of dq_dqd is the derivative of
    d tau_i / d q_j by qd_k; dqdd_dq is dM/dq. Absent derivatives are zero, or follow by symmetry."""

    dq_dq: np.ndarray
    dq_dqd: np.ndarray
    dqd_dqd: np.ndarray
    dqdd_dq: np.ndarray


@with_field_repr
class GeneralizedMomentum(NamedTuple):
    """momentum (..., nv): p = M qd; rate (..., nv): dp/dt = tau + rate."""

    momentum: np.ndarray
    rate: np.ndarray


@with_field_repr
class CenterOfMass(NamedTuple):
    """position (..., 3) m in root axes; jacobian (..., 3, nv): velocity = jacobian qd."""

    position: np.ndarray
    jacobian: np.ndarray


@with_field_repr
class CenterOfMassMotion(NamedTuple):
    """position, velocity, acceleration (..., 3) in root axes: m, m/s, m/s^2."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray


@with_field_repr
class FramePose(NamedTuple):
    """rotation (..., 3, 3) from link to root axes; position (..., 3) m of the link's origin."""

    rotation: np.ndarray
    position: np.ndarray


@with_field_repr
class FramePoses(NamedTuple):
    """rotations (..., n, 3, 3), positions (..., n, 3) m of n links, see FramePose."""

    rotations: np.ndarray
    positions: np.ndarray


@with_field_repr
class FrameKinematics(NamedTuple):
    """rotation (..., 3, 3) from link to root axes, position (..., 3) of the link's origin, velocity and
    acceleration (..., 6), angular first: J qd and J qdd + dJ/dt qd."""

    rotation: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray


@with_field_repr
class OperationalSpaceInertia(NamedTuple):
    """inertia (..., 6 k, 6 k): Lambda = (J M^-1 J^T)^-1 of k links; jacobian (..., 6 k, nv)."""

    inertia: np.ndarray
    jacobian: np.ndarray


@with_field_repr
class OperationalSpaceInertiaInverse(NamedTuple):
    """inertia_inverse (..., 6 k, 6 k): Lambda^-1 = J M^-1 J^T of k links; jacobian (..., 6 k, nv)."""

    inertia_inverse: np.ndarray
    jacobian: np.ndarray


@with_field_repr
class DelassusMatrix(NamedTuple):
    """matrix (..., rows, rows): J M^-1 J^T over the rows of contacts; jacobian (..., rows, nv): J."""

    matrix: np.ndarray
    jacobian: np.ndarray


@with_field_repr
class DelassusInverse(NamedTuple):
    """inverse (..., rows, rows): (J M^-1 J^T)^-1, the operational-space inertia over the rows of contacts;
    jacobian (..., rows, nv): J."""

    inverse: np.ndarray
    jacobian: np.ndarray


@with_field_repr
class ImpactDynamics(NamedTuple):
    """qd (..., nv) after an impact; contact_impulses (..., rows) on the links, N s and N m s, in the axes of
    the contacts. Active contacts stop, and move back along their normals at the part `restitution` of their
    velocity before."""

    qd: np.ndarray
    contact_impulses: np.ndarray


@with_field_repr
class MomentumRegressor(NamedTuple):
    """Regressors (..., nv, 10 nbodies), or (..., nv, 10) of a link, of the momentum and of its rate."""

    momentum: np.ndarray
    rate: np.ndarray


@with_field_repr
class EnergyRegressor(NamedTuple):
    """Regressors (..., 10 nbodies) of the kinetic and of the potential energy."""

    kinetic: np.ndarray
    potential: np.ndarray


@with_field_repr
class JointRegressor(NamedTuple):
    """Columns (..., nv, joints) of rotor inertias, viscous friction, torque offsets and springs."""

    rotor: np.ndarray
    viscous: np.ndarray
    offset: np.ndarray
    spring: np.ndarray


WITH_CONTACTS = {
    "forward_dynamics": ContactForwardDynamics,
    "inverse_dynamics": ContactInverseDynamics,
    "hybrid_dynamics": ContactHybridDynamics,
    "forward_dynamics_derivatives": ContactForwardDynamicsDerivatives,
    "inverse_dynamics_derivatives": ContactInverseDynamicsDerivatives,
    "hybrid_dynamics_derivatives": ContactHybridDynamicsDerivatives,
}
