"""The kinds of joints, one record each, with everything that the layers above need."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.symbolic import (
    Rotation,
    Translation,
    axis_rotation,
    axis_rotation_parts,
    exp3,
    exp3_derivative,
    exp6,
    exp6_derivative,
    motion_transform,
    moved_along,
    nearer_to_unit,
    quaternion_difference,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    quaternion_rates,
    quaternion_rotation,
    rotation_transform,
    skew,
    transpose,
    turned_quaternion,
    velocity_to,
)

POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
TWIST = tuple(f"{part}.{axis}" for part in ("angular", "linear") for axis in "xyz")


@dataclass(frozen=True, eq=False, kw_only=True)
class JointType:
    """The properties of one kind of joint. X_J (6, 6) takes motion vectors from the joint's frame on the
    parent to the body; q (..., nq) and rates (..., nv) are of one joint, angular rates first, in body axes.

    motion: axis (3,) -> the motion subspace S (6, nv), constant in body axes.
    factors: axis, q (nq,) -> elementary transforms whose product is X_J, for symbols; of a joint without
        `parts` for floats (..., nq) as well.
    parts: axis -> P, C, S, L (6, 6), where X_J(q) = P + cos(q) C + sin(q) S + q L; None: not of this form.
    tangent: q -> (..., nq, nv), the map from rates to dq/dt.
    moved: q, step (..., nv) -> q after a unit of time at these rates; exact to first order, and quaternions
        stay of unit length.
    difference: q, start -> the step by which `moved` takes start to q.
    integrate, logarithm: as `moved` and `difference`, exact for steps of any size, for numbers; integrate
        also for symbols, exact up to half a turn.
    step_derivatives: step (..., nv) -> two (..., nv, nv): the derivatives of the body's motion after
        `integrate` by a motion before it, and by the step.
    q_names, v_names: suffixes of the coordinates' names; empty for one coordinate, which has the joint's
        name.
    quaternion: index in q of a unit quaternion x y z w; lengths: which positions are lengths, m.
    turns, slides: about or along the axis; a joint with neither has no axis. wraps: q is an angle that may
        jump by a turn. bounded: a description gives lower and upper bounds of q.
    """

    motion: Callable[[np.ndarray], np.ndarray]
    factors: Callable
    parts: Callable | None
    tangent: Callable
    moved: Callable
    difference: Callable
    integrate: Callable
    logarithm: Callable
    step_derivatives: Callable
    q_names: tuple[str, ...] = ()
    v_names: tuple[str, ...] = ()
    quaternion: int | None = None
    lengths: tuple[int, ...] = ()
    turns: bool = False
    slides: bool = False
    wraps: bool = False
    bounded: bool = False

    @property
    def nq(self):
        return max(1, len(self.q_names))

    @property
    def nv(self):
        return max(1, len(self.v_names))

    @property
    def is_scalar(self):
        """True for one position and one velocity: a JointState has room for it, and another joint can mimic
        it."""
        return self.nq == self.nv == 1

    @property
    def is_free(self):
        """True if the body moves freely relative to its parent: no force acts across the joint."""
        return self.nv == 6

    @property
    def has_axis(self):
        return self.turns or self.slides

    @property
    def neutral(self):
        """Position (nq,) at which the joint's frame and the body's coincide."""
        q = np.zeros(self.nq)
        if self.quaternion is not None:
            q[self.quaternion + 3] = 1.0
        return q

    def still_points(self, axis):
        """Which of the homogeneous points x, y, z (at infinity) and the origin the joint never moves: rows
        and columns of the body's pseudo-inertia that act on the parent as well."""
        S = self.motion(axis)
        velocities = np.concatenate([skew(S[:3].T), S[3:].T[..., None]], axis=-1)
        return tuple(np.flatnonzero(~velocities.any(axis=(0, 1))).tolist())


# --- one coordinate -----------------------------------------------------------------------------------------


def _along(start):
    """`motion` of a joint with one coordinate: its axis among the angular (0) or linear (3) rows."""

    def motion(axis):
        S = np.zeros((6, 1))
        S[start : start + 3, 0] = axis
        return S

    return motion


def _turning_parts(axis):
    return (*(rotation_transform(transpose(part)) for part in axis_rotation_parts(axis)), np.zeros((6, 6)))


def _turning_factors(axis, q):
    c, s = np.cos(q), np.sin(q)
    if axis[2] == 1.0:
        return (axis_rotation(2, c[0], s[0]),)
    P, C, S = (part.T for part in axis_rotation_parts(axis))
    return (Rotation(P + c * C + s * S),)


def _sliding_parts(axis):
    zero, slide = np.zeros((6, 6)), np.zeros((6, 6))
    slide[3:, :3] = -skew(axis)
    return np.eye(6), zero, zero, slide


def _sliding_factors(axis, q):
    return (Translation(q * axis),)


def _one(q):
    return np.ones((1, 1))


def _added(q, step):
    return q + step


def _subtracted(q, start):
    return q - start


def _nearest_turn(q, start):
    """The difference by the shorter way around."""
    turns = np.round((q - start) / (2.0 * np.pi))
    return q - start - 2.0 * np.pi * turns


def _unchanged(step):
    one = np.broadcast_to(np.eye(1), (*step.shape, 1))
    return one, one


_TURNING = JointType(
    motion=_along(0),
    factors=_turning_factors,
    parts=_turning_parts,
    tangent=_one,
    moved=_added,
    difference=_subtracted,
    integrate=_added,
    logarithm=_subtracted,
    step_derivatives=_unchanged,
    turns=True,
)


# --- several coordinates ------------------------------------------------------------------------------------


def _turns_of_all_axes(axis):
    return np.eye(6)[:, :3]


def _orientation_factors(axis, q):
    return (Rotation(transpose(quaternion_rotation(q))),)


def _all_motions(axis):
    return np.eye(6)


def _pose_factors(axis, q):
    return (Rotation(transpose(quaternion_rotation(q[..., 3:]))), Translation(q[..., :3]))


def _pose_tangent(q):
    T = np.zeros((*q.shape[:-1], 7, 6), dtype=np.result_type(q.dtype, float))
    T[..., :3, 3:] = quaternion_rotation(q[..., 3:])
    T[..., 3:, :3] = quaternion_rates(q[..., 3:])
    return T


def _pose_moved(q, step):
    place = q[..., :3] + (quaternion_rotation(q[..., 3:]) @ step[..., 3:, None])[..., 0]
    return np.concatenate([place, turned_quaternion(q[..., 3:], step[..., :3])], axis=-1)


def _pose_difference(q, start):
    place = q[..., :3] - start[..., :3]
    slide = (transpose(quaternion_rotation(start[..., 3:])) @ place[..., None])[..., 0]
    return np.concatenate([quaternion_difference(q[..., 3:], start[..., 3:]), slide], axis=-1)


def _ball_integrated(q, step):
    return _of_unit_length(quaternion_product(q, quaternion_exp(step)))


def _ball_logarithm(q, start):
    return quaternion_log(quaternion_product(start * _CONJUGATE, q))


def _ball_step_derivatives(step):
    return transpose(exp3(step)), exp3_derivative(step)


def _pose_integrated(q, step):
    turn, slide = step[..., :3], moved_along(step[..., :3], step[..., 3:])
    place = q[..., :3] + (quaternion_rotation(q[..., 3:]) @ slide[..., None])[..., 0]
    return np.concatenate([place, _ball_integrated(q[..., 3:], turn)], axis=-1)


def _pose_logarithm(q, start):
    turn, place = _ball_logarithm(q[..., 3:], start[..., 3:]), q[..., :3] - start[..., :3]
    slide = (transpose(quaternion_rotation(start[..., 3:])) @ place[..., None])[..., 0]
    return np.concatenate([turn, velocity_to(turn, slide)], axis=-1)


def _pose_step_derivatives(step):
    after = exp6(step)
    return motion_transform(transpose(after.rotation), after.position), exp6_derivative(step)


def _of_unit_length(quaternion):
    if quaternion.dtype.hasobject:
        return nearer_to_unit(quaternion)
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


_CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])

KINDS: dict[str, JointType] = {
    "revolute": replace(_TURNING, bounded=True),
    "continuous": replace(_TURNING, logarithm=_nearest_turn, wraps=True),
    "prismatic": replace(
        _TURNING,
        motion=_along(3),
        factors=_sliding_factors,
        parts=_sliding_parts,
        lengths=(0,),
        turns=False,
        slides=True,
        bounded=True,
    ),
    "ball": JointType(
        motion=_turns_of_all_axes,
        factors=_orientation_factors,
        parts=None,
        tangent=quaternion_rates,
        moved=turned_quaternion,
        difference=quaternion_difference,
        integrate=_ball_integrated,
        logarithm=_ball_logarithm,
        step_derivatives=_ball_step_derivatives,
        q_names=POSE[3:],
        v_names=TWIST[:3],
        quaternion=0,
    ),
    "floating": JointType(
        motion=_all_motions,
        factors=_pose_factors,
        parts=None,
        tangent=_pose_tangent,
        moved=_pose_moved,
        difference=_pose_difference,
        integrate=_pose_integrated,
        logarithm=_pose_logarithm,
        step_derivatives=_pose_step_derivatives,
        q_names=POSE,
        v_names=TWIST,
        quaternion=3,
        lengths=(0, 1, 2),
    ),
}
