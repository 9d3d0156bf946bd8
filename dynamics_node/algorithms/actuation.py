"""Torques at driven joints from those at the independent coordinates and back: tau = G_act^T tau_act."""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.rates import closure_matrix
from dynamics_node.errors import InputError
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls


class Driven(NamedTuple):
    """torques (..., k) of the driven joints; rest (..., nv): the part of tau that the driven joints cannot
    produce, such as the wrench on a floating base."""

    torques: np.ndarray
    rest: np.ndarray


@explains_wrong_calls
class Actuation:
    """Conversion of torques at the independent coordinates into those of driven joints or motors, and back.

    Parameters
    ----------
    robot : Robot
        The robot, also with closed loops.
    joints : sequence of str
        The k driven joints, of any kind, coordinate by coordinate for a ball joint, or motors of
        `Robot.actuators`: names of `Robot.joint_map_names`.
    weights : array_like (k,), optional
        Positive costs of their torques, by default 1. They count if drives are redundant.

    Raises
    ------
    ValueError
        For an unknown or floating joint, and for weights that are not positive.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> chain = dn.parse_robot(geared_chain(2))  # rotors m1 and m2 turn 6 times as fast as the joints
    >>> motors = dn.Actuation(chain, ["m1", "m2"])
    >>> motors.from_coordinates(chain.neutral(), [12.0, 6.0]).torques
    array([2., 1.])
    >>> motors.to_coordinates(chain.neutral(), [2.0, 1.0])
    array([12.,  6.])
    """

    def __init__(self, robot: Robot, joints: Iterable[str], weights: ArrayLike | None = None):
        free = {joint.name for joint in robot.independent_joints if joint.type.is_free}
        names = enumerate(robot.joint_map_names)
        known = {name: k for k, name in names if name.split(".")[0] not in free}
        self.robot, self.joints = robot, tuple(joints)
        for name in self.joints:
            if name not in known:
                raise InputError(f"driven joint {name!r} is unknown or floating; known: {', '.join(known)}")
        self.at = [known[name] for name in self.joints]
        self._weights = np.ones(len(self.at)) if weights is None else np.array(weights, dtype=float)
        if self._weights.shape != (len(self.at),) or not (self._weights > 0).all():
            raise InputError(f"weights must be {len(self.at)} positive numbers")

    @cached_property
    def _floats(self):
        """(nv,) bool: coordinates of a floating base, which no joint drives."""
        floats = np.zeros(self.robot.nv, dtype=bool)
        for joint in self.robot.independent_joints:
            floats[joint.v] = joint.type.is_free
        return floats

    def _map(self, q, G):
        """G_act^T (..., nv, k)."""
        G = closure_matrix(self.robot, np.asarray(q, dtype=float)) if G is None else np.asarray(G)
        return np.swapaxes(self.robot.joint_map[self.at] @ G, -1, -2)

    def to_coordinates(self, q: ArrayLike, torques: ArrayLike, G: ArrayLike | None = None) -> np.ndarray:
        """Return the torques at the independent coordinates.

        Parameters
        ----------
        q : array_like (..., nq)
            Closed positions, rad or m.
        torques : array_like (..., k)
            Torques of the driven joints, N m or N.
        G : array_like (..., nv of the tree, nv), optional
            Rates of the tree by those of the independent coordinates, if they are available.

        Returns
        -------
        ndarray (..., nv)
            tau, N m or N.
        """
        return (self._map(q, G) @ np.asarray(torques, dtype=float)[..., None])[..., 0]

    def from_coordinates(self, q: ArrayLike, tau: ArrayLike, G: ArrayLike | None = None) -> Driven:
        """Return the torques of the driven joints.

        Parameters
        ----------
        q : array_like (..., nq)
            Closed positions, rad or m.
        tau : array_like (..., nv)
            Torques at the independent coordinates, N m or N.
        G : array_like (..., nv of the tree, nv), optional
            Rates of the tree by those of the independent coordinates, if they are available.

        Returns
        -------
        torques : ndarray (..., k)
            The unique solution; the one of minimum weighted norm if drives are redundant; the least-squares
            fit if there is none. NaN at singular positions.
        rest : ndarray (..., nv)
            The part of tau that the driven joints cannot produce, such as the wrench on a floating base.
        """
        A, tau = self._map(q, G), np.asarray(tau, dtype=float)
        regular = np.isfinite(A).all(axis=(-2, -1))[..., None]
        scale = 1.0 / np.sqrt(self._weights)
        weighted = np.where(regular[..., None], A[..., ~self._floats, :] * scale, 0.0)  # for LAPACK
        solved = np.linalg.pinv(weighted, rcond=1e-10) @ tau[..., ~self._floats, None]
        torques = np.where(regular, scale * solved[..., 0], np.nan)
        return Driven(torques, tau - (A @ torques[..., None])[..., 0])
