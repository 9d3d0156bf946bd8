"""Torques at driven joints from those at the independent coordinates and back: tau = G_act^T tau_act."""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.rates import closure_matrix
from dynamics_node.errors import InputError
from dynamics_node.robot import Robot


class Driven(NamedTuple):
    """torques (..., k) of the driven joints; rest (..., nv): the part of tau that the driven joints cannot
    produce, such as the wrench on a floating base."""

    torques: np.ndarray
    rest: np.ndarray


class Actuation:
    """Driven joints by name: any of the robot, coordinate by coordinate for a ball joint (names of
    robot.joint_map_names). weights (k,): positive costs of torques. at: their rows of robot.joint_map."""

    def __init__(self, robot: Robot, joints: Iterable[str], weights=None):
        """Raises ValueError for an unknown or floating joint, and for weights that are not positive."""
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
        if G is None:
            G = closure_matrix(self.robot, np.asarray(q, dtype=float))
        return np.swapaxes(self.robot.joint_map[self.at] @ G, -1, -2)

    def to_coordinates(self, q, torques, G=None):
        """tau (..., nv) of torques (..., k) of the driven joints at closed positions q (..., nq). G: of
        `closure_matrix`, if available."""
        return (self._map(q, G) @ np.asarray(torques, dtype=float)[..., None])[..., 0]

    def from_coordinates(self, q, tau, G=None) -> Driven:
        """The driven joints' torques for tau (..., nv) at closed positions q (..., nq): the unique solution;
        the one of minimum weighted norm if drives are redundant; the least-squares fit if there is none. NaN
        at singular positions."""
        A, tau = self._map(q, G), np.asarray(tau, dtype=float)
        regular = np.isfinite(A).all(axis=(-2, -1))[..., None]
        scale = 1.0 / np.sqrt(self._weights)
        weighted = np.where(regular[..., None], A[..., ~self._floats, :] * scale, 0.0)  # for LAPACK
        solved = np.linalg.pinv(weighted, rcond=1e-10) @ tau[..., ~self._floats, None]
        torques = np.where(regular, scale * solved[..., 0], np.nan)
        return Driven(torques, tau - (A @ torques[..., None])[..., 0])
