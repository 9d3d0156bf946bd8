"""Constraints of a motion, state by state, with exact derivatives.

A row is a quantity divided by its limit: at most 1 and, if two-sided, at least -1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import quantity_program
from dynamics_node.errors import InputError
from dynamics_node.functions import Backend, build, compile
from dynamics_node.identification.excitation.bounds import Bounds
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import interpret, skew, trace

SIDE = 0.5  # m: unit of a box that is open on the other side
KINDS = ("position", "velocity", "acceleration")


@explains_wrong_calls
@dataclass(frozen=True, eq=False)
class Box:
    """The allowed region of a point of a link, for `design_excitation`.

    Parameters
    ----------
    link : str
        Name of the link.
    lower, upper : array_like (3,)
        Walls of the box in root axes, m; infinite where there is no wall.
    point : array_like (3,)
        The point in link axes, m; default the link's origin.

    Raises
    ------
    ValueError
        For an empty box, or arguments of a wrong shape.

    Examples
    --------
    >>> above = dn.Box("panda_link7", lower=[-np.inf, -np.inf, 0.1], upper=[0.8, np.inf, np.inf])
    >>> above.walls.tolist()  # 0.1 m above the ground, and behind x = 0.8 m
    [[-inf, -inf, 0.1], [0.8, inf, inf]]
    """

    link: str
    lower: ArrayLike
    upper: ArrayLike
    point: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self):
        for name in ("lower", "upper", "point"):
            value = np.asarray(getattr(self, name), dtype=float)
            if value.shape != (3,) or np.isnan(value).any():
                raise InputError(f"{name} of the box of {self.link} needs three numbers: x, y and z")
        if not np.isfinite(np.asarray(self.point, dtype=float)).all():
            raise InputError(f"point of the box of {self.link} must be finite")
        if np.any(self.walls[0] >= self.walls[1]):
            raise InputError(f"the box of {self.link} is empty: each lower wall must be below the upper one")

    @property
    def walls(self) -> np.ndarray:
        """Lower and upper walls (2, 3), m."""
        return np.array([self.lower, self.upper], dtype=float)


class JointRows:
    """Positions, velocities and accelerations of all joints."""

    def __init__(self, names, bounds: Bounds):
        self.names = tuple(f"{kind} of {name}" for kind in KINDS for name in names)
        self.two_sided = np.ones(len(self.names), dtype=bool)
        self._bounds = bounds
        self.limits = (bounds.half, bounds.velocity, bounds.acceleration)

    def values(self, q, qd, qdd):
        """(states, rows)"""
        parts = zip((q - self._bounds.center, qd, qdd), self.limits, strict=True)
        return np.concatenate([part / limit for part, limit in parts], axis=1)


@dataclass(frozen=True, eq=False)
class TorqueRows:
    """Torques of inverse dynamics with the described friction. Discontinuous Coulomb friction is subtracted
    from the limit instead."""

    robot: Robot
    bounds: Bounds
    backend: Backend = "auto"

    def __post_init__(self):
        for k in self.limited:
            if self.bounds.effort[k] <= self._friction[k]:
                reason = f"its available effort {self.bounds.effort[k]:g} does not exceed its friction"
                name = self.robot.v_names[k]
                raise InputError(f"{name} cannot move: {reason}; exclude it by --joints")

    @cached_property
    def limited(self):
        """Indices of the coordinates with effort limits."""
        return np.flatnonzero(np.isfinite(self.bounds.effort))

    @property
    def names(self):
        return tuple(f"torque of {self.robot.v_names[k]}" for k in self.limited)

    @property
    def two_sided(self):
        return np.ones(len(self.limited), dtype=bool)

    @cached_property
    def limits(self):
        """(rows,) N m or N"""
        return (self.bounds.effort - self._friction)[self.limited]

    @cached_property
    def _friction(self):
        """Largest Coulomb friction (nv,)."""
        return np.abs(self.robot.axle_map).T @ self.robot.friction

    @cached_property
    def _damping(self):
        """(nv, nv)"""
        return self.robot.axle_map.T @ (self.robot.damping[:, None] * self.robot.axle_map)

    def values(self, q, qd, qdd):
        tau = self._inverse(q, qd, qdd) + qd @ self._damping
        return tau[:, self.limited] / self.limits

    def slopes(self, q, qd, qdd):
        """Derivatives by q, qd and qdd, each (states, rows, nv)."""
        dq, dqd, dqdd = self._derivatives(q, qd, qdd)
        slopes = (dq, dqd + self._damping, dqdd)
        return [part[:, self.limited] / self.limits[:, None] for part in slopes]

    @cached_property
    def _inverse(self):
        return build(self.robot, "inverse_dynamics", backend=self.backend)

    @cached_property
    def _derivatives(self):
        return build(self.robot, "inverse_dynamics_derivatives", backend=self.backend)


@dataclass(frozen=True, eq=False)
class BoxRows:
    """A point of a link and the existing walls."""

    robot: Robot
    box: Box
    backend: Backend = "auto"

    def __post_init__(self):
        try:
            self.robot.frame(self.box.link)
        except KeyError as error:
            raise InputError(f"the box of {self.box.link}: {error.args[0]}") from None

    @cached_property
    def _walls(self):
        """For every row its axis, whether it is two-sided, center or wall, and unit (negative for lower
        walls)."""
        rows = []
        for axis, (low, high) in enumerate(self.box.walls.T.tolist()):
            if np.isfinite(low) and np.isfinite(high):
                rows.append((axis, True, (low + high) / 2, (high - low) / 2))
            elif np.isfinite(high):
                rows.append((axis, False, high - SIDE, SIDE))
            elif np.isfinite(low):
                rows.append((axis, False, low + SIDE, -SIDE))
        axes, sides, centers, units = zip(*rows, strict=True) if rows else ((), (), (), ())
        return list(axes), np.array(sides, dtype=bool), np.array(centers), np.array(units)

    @property
    def names(self):
        return tuple(f"{'xyz'[axis]} of {self.box.link}" for axis in self._walls[0])

    @property
    def two_sided(self):
        return self._walls[1]

    def values(self, q, qd, qdd):
        axes, _, centers, units = self._walls
        return (self._point(q)[0][:, axes] - centers) / units

    def slopes(self, q, qd, qdd):
        axes, _, _, units = self._walls
        by_q = self._point(q)[1][:, axes] / units[:, None]
        return [by_q, np.zeros_like(by_q), np.zeros_like(by_q)]

    @cached_property
    def _point(self):
        """q -> position (3,) and its Jacobian (3, nv)."""
        motion = quantity_program(self.robot, "frame_kinematics", link=self.box.link)
        jacobian = quantity_program(self.robot, "frame_jacobian", link=self.box.link)
        still = np.zeros(self.robot.nv, dtype=object)

        def position(q):
            frame = interpret(motion, q=q, qd=still, qdd=still)
            arm = frame["rotation"] @ np.asarray(self.box.point, dtype=float)
            J = interpret(jacobian, q=q)["jacobian"]
            return {"position": frame["position"] + arm, "jacobian": J[3:] - skew(arm) @ J[:3]}

        return compile(trace(position, {"q": (self.robot.nq,)}), self.backend, "point")
