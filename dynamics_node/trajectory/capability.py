"""Operational space of a link: forces and accelerations within effort limits, effective mass, and
manipulability."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.frame_kinematics import reference_named
from dynamics_node.algorithms.joint_friction import JointFriction, selected_friction
from dynamics_node.display import titled, with_field_repr
from dynamics_node.errors import InputError
from dynamics_node.functions import Backend, evaluate
from dynamics_node.functions.checks import finite, same_batch, shaped
from dynamics_node.functions.choices import require_known
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import matvec, transpose
from dynamics_node.text import listed
from dynamics_node.trajectory.motion_limits import joint_limits
from dynamics_node.trajectory.polytopes import Ellipsoid, Polytope, slabs, unit_vectors, zonotope

ROWS = {"rx": 0, "ry": 1, "rz": 2, "x": 3, "y": 4, "z": 5}  # of a Jacobian
LinkAxes = Literal["world_aligned", "body"]


@dataclass(frozen=True, eq=False, repr=False)
class Capability:
    """Forces and accelerations of a link within the effort limits of a robot.

    `capability` returns it.

    Attributes
    ----------
    force : Polytope
        Forces and moments of the link ON its environment, N and N m.
    acceleration : Polytope
        Classical and angular accelerations of the link without contact, m/s^2 and rad/s^2.

    Examples
    --------
    >>> dn.capability(robot, "panda_hand", robot.neutral(), backend="numpy")
    Capability
      force         14 half-spaces in 3 dimensions
      acceleration  42 half-spaces in 3 dimensions
    """

    force: Polytope
    acceleration: Polytope
    _parts: tuple  # J / limits, torques / limits, center and generators of the accelerations

    def __repr__(self):
        sizes = {name: getattr(self, name).normals.shape[-2:] for name in ("force", "acceleration")}
        return titled(
            "Capability", **{name: f"{k} half-spaces in {m} dimensions" for name, (k, m) in sizes.items()}
        )

    @cached_property
    def force_ellipsoid(self) -> Ellipsoid:
        """Forces for all torques with sum (tau / limit)^2 <= 1, inside `force`."""
        K, e, _, _ = self._parts
        directions, sizes = _semi_axes(K)
        center = -matvec(np.linalg.pinv(transpose(K), rcond=SINGULAR), e)
        missed = matvec(transpose(K), center) + e
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = np.sqrt(1.0 - (missed * missed).sum(axis=-1, keepdims=True))
            return Ellipsoid(center, directions, radius / sizes)

    @cached_property
    def acceleration_ellipsoid(self) -> Ellipsoid:
        """Accelerations for the same torques: the dynamic manipulability ellipsoid, inside `acceleration`."""
        _, _, center, generators = self._parts
        return Ellipsoid(center, *_semi_axes(generators))


@with_field_repr
class Manipulability(NamedTuple):
    """How well the joints move a link, by the singular values of its Jacobian.

    Attributes
    ----------
    measure : ndarray (...,)
        Product of the singular values: sqrt(det(J J^T)), 0 at singular positions.
    condition : ndarray (...,)
        Largest through smallest singular value, infinite at singular positions.
    ellipsoid : Ellipsoid
        Velocities of the link for joint rates of norm 1.

    Examples
    --------
    >>> print(dn.manipulability(robot, "panda_hand", robot.neutral(), backend="numpy").measure.round(3))
    0.011
    """

    measure: np.ndarray
    condition: np.ndarray
    ellipsoid: Ellipsoid


@explains_wrong_calls
def capability(
    robot: Robot,
    link: str,
    q: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    axes: Sequence[str] = "xyz",
    reference: LinkAxes = "world_aligned",
    limits: JointLimits | None = None,
    friction: bool | JointFriction = True,
    gravity: ArrayLike | None = None,
    backend: Backend = "auto",
) -> Capability:
    """Compute the possible forces and accelerations of a link within the effort limits of the joints.

    With the motor torques tau, the force f of the link on its environment, and b = h(q, qd) plus friction:

    * force: all f for which tau = M qdd + b + J^T f is within the limits;
    * acceleration: all J M^-1 (tau - b) + dJ/dt qd for tau within the limits, with f = 0;
    * their ellipsoids: the same for all tau with sum (tau / limit)^2 <= 1.

    In ellipsoids, tau is counted from the middle of unequal limits, and divided by half of their range.
    Gravity, velocities and payloads shift and cut the sets: 0 is outside if the robot cannot hold itself.

    Parameters
    ----------
    robot : Robot
        The robot on a fixed base, for example with its payload, see `with_payload`. In closed loops the
        independent joints are driven.
    link : str
        A link, at whose origin the force acts.
    q : array_like (..., nq)
        Positions, closed, rad or m.
    qd, qdd : array_like (..., nv), optional
        Velocities, and the accelerations during the force, by default zero.
    axes : sequence of str
        The m coordinates of forces and accelerations: some of x, y, z (force, acceleration of the origin) and
        rx, ry, rz (moment, angular acceleration). Other components of the force are zero, those of the
        acceleration may have any value.
    reference : str
        Axes of the directions: 'world_aligned', those of the root, or 'body', those of the link.
    limits, friction, gravity, backend
        As in `check_trajectory`; of the limits only those of efforts count, at the velocities, not
        max_continuous_effort.

    Returns
    -------
    Capability
        Polytopes and ellipsoids over the leading axes of the arguments.

    Raises
    ------
    InputError
        For a joint without an effort limit, a floating base, and invalid arguments.
    SolutionError
        If the robot has no accelerations there, as in singular loops.
    KeyError
        For an unknown link.

    See Also
    --------
    effective_mass : inertia in a direction.
    manipulability : the same without torques.

    Examples
    --------
    >>> q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    >>> capability = dn.capability(robot, "panda_hand", q, backend="numpy")
    >>> capability.force.along([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).round(1)  # N, forward and upward
    array([ 90.9, 110.5])
    >>> capability.acceleration.along([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]).round(1)  # m/s^2
    array([50.7, 61.8])
    >>> loaded = dn.with_payload(robot, "panda_hand", 3.0, com=[0.0, 0.0, 0.1])
    >>> float(dn.capability(loaded, "panda_hand", q, backend="numpy").force.along([0.0, 0.0, 1.0]).round(1))
    81.1

    References
    ----------
    Chiacchio, Bouffard-Vercelli and Pierrot, "Force polytope and force ellipsoid for redundant manipulators",
    Journal of Robotic Systems, 1997. Yoshikawa, "Dynamic manipulability of robot manipulators", 1985.
    """
    robot.frame(link)  # raises KeyError for an unknown link
    if robot.floating_base:
        raise InputError(
            f"{robot.name} has a floating base, which no joint holds: read the robot with floating_base=False"
        )
    bounds = _efforts(robot, {} if limits is None else limits)
    gravity = None if gravity is None else finite("gravity", gravity, (3,))
    q, qd, still, moving = _states(robot, q, qd, qdd)
    compute: Any = {"backend": backend}
    rows, turn = _rows(axes), _turn(robot, link, q, reference, compute)
    J = (turn @ evaluate(robot, "frame_jacobian", q, link=link, **compute))[..., rows, :]
    change = matvec(turn, evaluate(robot, "frame_jacobian_bias", q, qd, link=link, **compute))[..., rows]
    passive = selected_friction(robot, friction)
    resistance = passive.independent(robot, q, qd) if passive else 0.0
    free, held = (
        evaluate(robot, "inverse_dynamics", q, qd, acceleration, gravity=gravity, **compute) + resistance
        for acceleration in (still, moving)
    )
    A = J @ evaluate(robot, "inverse_mass_matrix", q, **compute)
    lowest, highest = _ranges(robot, bounds, qd)
    middle, half = 0.5 * (highest + lowest), 0.5 * (highest - lowest)
    center, generators = change + matvec(A, middle - free), A * half[..., None, :]
    return Capability(
        slabs(J, lowest - held, highest - held),
        zonotope(center, generators),
        (J / half[..., None, :], (held - middle) / half, center, generators),
    )


@explains_wrong_calls
def effective_mass(
    robot: Robot,
    link: str,
    q: ArrayLike,
    direction: ArrayLike,
    *,
    reference: LinkAxes = "world_aligned",
    backend: Backend = "auto",
) -> np.ndarray:
    """Compute the mass that a force on a link's origin accelerates in a direction.

    It is 1 / (u^T J M^-1 J^T u) for the unit vector u, the force divided by the acceleration in its
    direction. The motors give no torque. Rotor inertias count if the robot has them (`armature`).

    Parameters
    ----------
    robot : Robot
        The robot, with or without a floating base.
    link : str
        A link.
    q : array_like (..., nq)
        Positions, closed, rad or m.
    direction : array_like (..., 3)
        A vector of any length.
    reference : str
        Axes of the direction, as in `capability`.
    backend : str
        As in `build`.

    Returns
    -------
    ndarray (...,)
        kg; infinite for a direction in which the link cannot move.

    Raises
    ------
    InputError
        For invalid arguments.
    KeyError
        For an unknown link.

    Examples
    --------
    >>> q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    >>> dn.effective_mass(robot, "panda_hand", q, np.eye(3), backend="numpy").round(2)
    array([3.16, 2.74, 3.95])

    References
    ----------
    Khatib, "Inertial properties in robotic manipulation: an object-level framework", International Journal of
    Robotics Research, 1995.
    """
    robot.frame(link)  # raises KeyError for an unknown link
    reference = _link_axes(reference)
    unit = unit_vectors(direction, 3)
    position = shaped("q", q, ((robot.nq,), robot.q_names))
    options: Any = {"links": [link], "reference": reference, "backend": backend}
    inverse = evaluate(robot, "operational_space_inertia_inverse", position, **options)[0][..., 3:, 3:]
    ease = np.einsum("...i,...ij,...j->...", unit, inverse, unit)
    largest = np.abs(inverse).max(axis=(-2, -1))
    with np.errstate(divide="ignore"):
        return (1.0 / np.where(ease > STUCK * largest, ease, 0.0))[()]


STUCK = 1e-14  # of the largest entry of Lambda^-1: rounding


@explains_wrong_calls
def manipulability(
    robot: Robot,
    link: str,
    q: ArrayLike,
    *,
    axes: Sequence[str] = "xyz",
    reference: LinkAxes = "world_aligned",
    backend: Backend = "auto",
) -> Manipulability:
    """Compute Yoshikawa's manipulability measure, the condition number and the velocity ellipsoid of a link.

    Parameters
    ----------
    robot : Robot
        The robot on a fixed base.
    link : str
        A link.
    q : array_like (..., nq)
        Positions, closed, rad or m.
    axes, reference
        Rows of the Jacobian, as in `capability`. Rows of both kinds mix m and rad.
    backend : str
        As in `build`.

    Returns
    -------
    Manipulability
        Over the leading axes of q.

    Raises
    ------
    InputError
        For a floating base, and invalid arguments.
    KeyError
        For an unknown link.

    Examples
    --------
    >>> q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    >>> found = dn.manipulability(robot, "panda_hand", q, backend="numpy")
    >>> print(found.measure.round(3), found.condition.round(2))
    0.108 2.44

    References
    ----------
    Yoshikawa, "Manipulability of robotic mechanisms", International Journal of Robotics Research, 1985.
    """
    robot.frame(link)  # raises KeyError for an unknown link
    if robot.floating_base:
        raise InputError(f"{robot.name} has a floating base, which moves every link: fix the base")
    compute: Any = {"backend": backend}
    position = shaped("q", q, ((robot.nq,), robot.q_names))
    J = evaluate(robot, "frame_jacobian", position, link=link, **compute)
    J = (_turn(robot, link, position, reference, compute) @ J)[..., _rows(axes), :]
    directions, lengths = _semi_axes(J)
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(lengths[..., -1] > 0, lengths[..., 0] / lengths[..., -1], np.inf)
    return Manipulability(
        lengths.prod(axis=-1), condition[()], Ellipsoid(np.zeros(lengths.shape), directions, lengths)
    )


# --- parts --------------------------------------------------------------------------------------------------


def _efforts(robot, limits):
    """EffortLimits of all joints and both signs. Raises InputError."""
    bounds = joint_limits(robot, limits).effort
    sides = bounds.ranges(np.zeros(robot.nv))
    unlimited = ~np.isfinite(sides).all(axis=0)
    if missing := [name for name, none in zip(robot.v_names, unlimited, strict=True) if none]:
        raise InputError(
            f"no effort limit of {listed(missing)}: add limits={{{missing[0]!r}: {{'max_effort': ...}}}}"
        )
    return bounds


def _ranges(robot, bounds, qd):
    """The lowest and the highest effort (..., nv) at velocities. Raises InputError if there is none."""
    lowest, highest = bounds.ranges(qd)
    if (none := lowest >= highest).any():
        at = np.argwhere(none)[0]
        raise InputError(
            f"velocity {qd[tuple(at)]:.4g} of {robot.v_names[at[-1]]}: its motor has no possible effort there"
        )
    return lowest, highest


def _states(robot, q, *rates):
    """q (..., nq), qd, zero, and qdd (..., nv) over one batch."""
    arrays = {"q": (shaped("q", q, ((robot.nq,), robot.q_names)), 1)}
    zero = np.zeros(robot.nv)
    for name, given in zip(("qd", "qdd"), rates, strict=True):
        array = zero if given is None else shaped(name, given, ((robot.nv,), robot.v_names))
        arrays[name] = (array, 1)
    batch = same_batch(arrays)
    q, qd, qdd = (np.broadcast_to(array, (*batch, array.shape[-1])) for array, _ in arrays.values())
    return q, qd, np.broadcast_to(zero, qd.shape), qdd


def _rows(axes):
    """Rows of a Jacobian. Raises InputError."""
    names = list(axes) if isinstance(axes, Sequence) else []
    if not names or any(names.count(name) > 1 or name not in [*ROWS] for name in names):
        raise InputError(f"axes must be some of {', '.join(ROWS)}, each once, not {axes!r}")
    return [ROWS[name] for name in names]


def _link_axes(reference) -> LinkAxes:
    """The name here of axes at the link's origin. Raises ChoiceError for another reference."""
    name = reference_named(reference)
    require_known("reference", name, get_args(LinkAxes))
    return name


def _turn(robot, link, q, reference, compute):
    """The map (..., 6, 6) of motions of the link's origin from root axes to those of the reference."""
    if _link_axes(reference) == "world_aligned":
        return np.eye(6)
    R = evaluate(robot, "frame_pose", q, link=link, **compute).rotation
    turn = np.zeros((*R.shape[:-2], 6, 6))
    turn[..., :3, :3] = turn[..., 3:, 3:] = transpose(R)
    return turn


def _semi_axes(A):
    """Directions (..., m, m) and lengths (..., m) of the image of the unit ball by A (..., m, n)."""
    U, sizes, _ = np.linalg.svd(A)
    lengths = np.zeros(U.shape[:-1])
    lengths[..., : sizes.shape[-1]] = np.where(sizes > SINGULAR * sizes[..., :1], sizes, 0.0)
    return U, lengths


SINGULAR = 1e-12  # of the largest singular value: rounding
