"""The parts of a Robot: joints, bodies, and the frames of links."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.description import JointParameters
from dynamics_node.robot.joints import KINDS, JointType


class Masters(NamedTuple):
    """The joints that an explicit joint follows: its position is their weighted sum, plus an offset.

    Attributes
    ----------
    names : tuple of str
        Names of the joints.
    q, v : tuple of int
        Their indices in q and in the tree's qd.
    weights : tuple of float
        Their weights.
    is_mimic : bool
        Whether `<mimic>` gives them, not a gear or belt; a mimic joint has no motor.
    """

    names: tuple[str, ...]
    q: tuple[int, ...]
    v: tuple[int, ...]
    weights: tuple[float, ...]
    is_mimic: bool = False


@dataclass(frozen=True, eq=False)
class Joint(JointParameters):
    """The joint that moves a body relative to its parent.

    Attributes
    ----------
    name : str
        Name of the joint.
    kind : str
        Its type, such as 'revolute': a key of KINDS.
    axis : ndarray (3,)
        Unit vector in joint axes.
    q, v : slice
        Coordinates of the joint in q and in the tree's qd. Those of an explicit joint, which has none of its
        own, reach from its first master to its last.
    limits : Limits
        Limits of position, rad or m, of speed, rad/s or m/s, and of torque, N m or N.
    damping, friction, armature, creep, spring, torque_offset : float
        Coefficients of the joint, SI units, as in the arrays of a Robot.
    offset : float
        Position of the joint when all coordinates are zero, rad or m.
    masters : Masters or None
        The joints that an explicit joint (mimic, gear, belt) follows.
    S : ndarray (6, n)
        Motion subspace by the coordinates `v`, angular part first. Joints in between have columns of zeros.
    """

    name: str
    kind: str
    axis: np.ndarray
    q: slice
    v: slice
    offset: float = 0.0
    masters: Masters | None = None
    S: np.ndarray = field(init=False, repr=False)

    def __repr__(self):
        return f"Joint({self.name!r}, {self.kind})"

    def __post_init__(self):
        S = self.subspace if self.masters is None else self.subspace @ self.weights
        object.__setattr__(self, "S", S)

    @property
    def type(self) -> JointType:
        """The properties of its kind."""
        return KINDS[self.kind]

    def position(self, q):
        """Return its own position (..., nq of the kind) at q (..., nq of the robot)."""
        if self.masters is None:
            return q[..., self.q] + self.offset
        return _weighted(q[..., list(self.masters.q)], self.masters.weights) + self.offset

    def rate(self, qd):
        """Return its own velocity (..., nv of the kind) at rates (..., nv) of the robot's tree.

        Accelerations follow likewise.
        """
        if self.masters is None:
            return qd[..., self.v]
        return _weighted(qd[..., list(self.masters.v)], self.masters.weights)

    @cached_property
    def subspace(self) -> np.ndarray:
        """Motion of the body (6, nv of the kind), in its axes, by the joint's own rates.

        The sign for an explicit joint makes its largest weight positive.
        """
        S = self.type.motion(self.axis)
        return S if self.masters is None or max(self.masters.weights, key=abs) > 0 else -S

    @cached_property
    def weights(self) -> np.ndarray:
        """Map (nv of the kind, n) from the coordinates `v` to the rates of `subspace`."""
        if self.masters is None:
            return np.eye(self.type.nv)
        factors, weights = np.array(self.masters.weights), np.zeros((1, self.v.stop - self.v.start))
        weights[0, np.array(self.masters.v) - self.v.start] = factors * np.sign(max(factors, key=abs))
        return weights

    @property
    def moved_by(self) -> tuple[int, ...]:
        """Velocity coordinates of the tree that move it: its own, or those of its masters."""
        return tuple(range(self.v.start, self.v.stop)) if self.masters is None else self.masters.v

    @property
    def torque_units(self):
        """Unit of the torques at its coordinates: N m for turning ones, else N."""
        turning = np.any(self.S[:3], axis=0).tolist()
        return tuple("N m" if turns else "N" for turns in turning)


@dataclass(frozen=True, eq=False, repr=False)
class Actuator(Joint):
    """A motor of a transmission. It turns with the joints that are its masters, and moves no body.

    Attributes
    ----------
    transmission : str
        Name of the transmission.
    coupled : bool
        Whether its rotor inertia, at the motor, is an entry of `Robot.armature`: that of a motor that moves
        several joints. The rotor of one joint's motor counts at the joint.
    """

    transmission: str = ""
    coupled: bool = False

    def __repr__(self):
        return f"Actuator({self.name!r}, {self.transmission!r})"


def _weighted(values, weights):
    """The weighted sum (..., 1) of values (..., n)."""
    return sum(weight * values[..., k, None] for k, weight in enumerate(weights))


@dataclass(frozen=True, eq=False)
class Body:
    """A moving body: a link and everything fixed to it. Its frame is that of the link.

    Attributes
    ----------
    name : str
        The link.
    parent : int
        Index of the parent body; -1 for the root.
    joint : Joint
        The joint that moves it relative to its parent.
    X_tree : ndarray (6, 6)
        Motion transform from the parent body to the joint frame at position zero.
    inertia : ndarray (6, 6)
        Spatial inertia about the body frame's origin, angular part first.
    """

    name: str
    parent: int
    joint: Joint
    X_tree: np.ndarray
    inertia: np.ndarray

    def __repr__(self):
        return f"Body({self.name!r}, parent={self.parent}, joint={self.joint.name!r})"

    @property
    def mass(self) -> float:
        """Mass of the link and everything fixed to it, kg."""
        return float(self.inertia[5, 5])


@dataclass(frozen=True, eq=False)
class Frame:
    """The frame of a link, which is fixed to a body or to the root.

    Attributes
    ----------
    name : str
        The link.
    body : int
        Index of its body; -1 for the root.
    X : ndarray (6, 6)
        Motion transform from the body to the link.
    parent : str
        The parent link; empty for the root.
    fixed_joint : str
        Name of the joint to the parent, if it is fixed; otherwise empty.
    inertia : ndarray (6, 6)
        Spatial inertia of this link alone, in its axes about its origin. Those of all links of a body add up
        to the body's.
    """

    name: str
    body: int
    X: np.ndarray
    parent: str = ""
    fixed_joint: str = ""
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((6, 6)))

    def __repr__(self):
        return f"Frame({self.name!r}, body={self.body}, parent={self.parent!r})"
