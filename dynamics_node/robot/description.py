"""A robot as described by its file: links and joints, before merging fixed ones or selecting a part."""

from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.joints import KINDS
from dynamics_node.symbolic import length

LONGEST_NAME = 256  # characters of a link, a joint or a loop
JOINT_TYPES = (*KINDS, "fixed")  # and planar ones in files, see planar.py
MOMENTS = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}


@dataclass(frozen=True, eq=False)
class Link:
    """mass (kg), com (3,) m, inertia (3, 3) kg m^2 about the com: all in link axes."""

    name: str
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))


@dataclass(frozen=True)
class Mimic:
    """q = multiplier * q(joint) + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Bounds of a joint (rad or m, s, N m or N); infinite if there is none. deceleration: of motions that
    become slower; by default that of acceleration."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf
    acceleration: float = np.inf
    deceleration: float = np.inf
    jerk: float = np.inf


NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False, kw_only=True)
class JointParameters:
    """What a joint has in a description and in a Robot: limits, and coefficients in SI units, as in the
    arrays of a Robot. URDF has no element for creep (friction that grows slowly), spring (at rest at position
    0) and torque_offset."""

    limits: Limits = NO_LIMITS
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    creep: float = 0.0
    spring: float = 0.0
    torque_offset: float = 0.0


JOINT_PARAMETERS = tuple(field.name for field in fields(JointParameters))


@dataclass(frozen=True, eq=False)
class JointDescription(JointParameters):
    """A joint between two links. `rotation` (3, 3) and `origin` (3,) place the joint (= child link) frame in
    the parent link; `axis` (3,) is in joint axes, as written."""

    name: str
    kind: str
    parent: str
    child: str
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    mimic: Mimic | None = None
    independent: bool | None = None  # None: not specified in the file

    @property
    def direction(self) -> np.ndarray:
        """The axis (3,) with length one; 6e-17 becomes zero."""
        axis = np.asarray(self.axis, dtype=float)
        axis = axis / length(axis)
        axis[np.abs(axis) < 1e-14] = 0.0
        return axis / length(axis)


@dataclass(frozen=True, eq=False, kw_only=True)
class ActuatorDescription(JointParameters):
    """A motor of a transmission. Its position is the sum of weights[joint] times the position of the joint,
    plus an offset. kind: of the transmission. armature: of a motor that moves several joints, kg m^2; that of
    one joint's motor counts at the joint."""

    name: str
    transmission: str
    kind: str
    weights: dict[str, float]
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class LoopEnd:
    """A frame on a link: rotation (3, 3) and origin (3,) place it in the link."""

    link: str
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))


@dataclass(frozen=True, eq=False)
class LoopDescription:
    """A joint that closes a loop between frames on two links. kind: one of LOOP_KINDS.

    axis (3,): of a revolute or prismatic joint, the normal of a planar one, or the first axis of a universal
    one, fixed to the predecessor; second_axis (3,): of a universal joint, fixed to the successor; all in loop
    axes. length: of a rod between two balls, m.
    """

    name: str
    kind: str
    predecessor: LoopEnd
    successor: LoopEnd
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    second_axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    length: float = 0.0


@dataclass(frozen=True)
class Coupling:
    """A gear or belt: ratio * (sum of the positions of the joints from the nearest common ancestor to the
    predecessor) = the same sum to the successor."""

    name: str
    predecessor: str
    successor: str
    ratio: float


class LinearCoupling(NamedTuple):
    """sum of weights[joint] times the position of the joint = offset."""

    name: str
    weights: dict[str, float]
    offset: float


@dataclass(frozen=True)
class Description:
    """All links and joints of a file, in its order, its loops, and the motors of its transmissions. warnings:
    elements of the file that are ignored; digest: SHA-256 of the file, in hex; gravity: m/s^2, None if the
    file has none."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[JointDescription, ...]
    loops: tuple[LoopDescription, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    linear_couplings: tuple[LinearCoupling, ...] = ()
    actuators: tuple[ActuatorDescription, ...] = ()
    warnings: tuple[str, ...] = ()
    digest: str = ""
    gravity: tuple[float, ...] | None = None


QUARTER, ROUNDING = np.pi / 2, 1e-9  # rad


def rounded_turns(angles):
    """Angles (any,) in rad, those within ROUNDING of a multiple of a quarter turn rounded to it: files write
    it with few digits, and then limbs that look alike differ in all their products."""
    quarters = QUARTER * np.round(np.asarray(angles) / QUARTER)
    return np.where(np.abs(angles - quarters) < ROUNDING, quarters, angles)


def snapped(X, rounding=1e-14):
    """Remove the rounding of cos(pi/2) and the like: entries within `rounding` of 0, 1 and -1."""
    nearest = np.round(X)
    return np.where((np.abs(X - nearest) < rounding) & (np.abs(nearest) <= 1), nearest, X)
