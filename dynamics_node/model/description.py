"""A robot as its file describes it: links and joints, before anything is merged or chosen."""

from dataclasses import dataclass, field

import numpy as np

MOVABLE = ("revolute", "continuous", "prismatic", "floating")
JOINT_TYPES = (*MOVABLE, "fixed")


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
    """Bounds of a joint (rad or m, rad/s or m/s, N m or N); infinite where there is none."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf


NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class JointDescription:
    """A joint between two links. `rotation` (3, 3) and `origin` (3,) place the joint (= child link)
    frame in the parent link; `axis` (3,) is in joint axes, as written."""

    name: str
    kind: str
    parent: str
    child: str
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    limits: Limits = NO_LIMITS
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None


@dataclass(frozen=True)
class Description:
    """All links and joints of a file, in its order."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[JointDescription, ...]
