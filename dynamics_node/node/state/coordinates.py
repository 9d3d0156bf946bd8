"""Maps measured and published joints to the solver's independent coordinates and back."""

from typing import NamedTuple, Protocol

import numpy as np

from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.spanning import spanning
from dynamics_node.functions import Closing, SolutionError
from dynamics_node.robot import Robot


class Spread(NamedTuple):
    """q, qd, qdd and torques over the tree's coordinates, (..., nq) and (..., nv of the tree)."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray


class Coordinates:
    """Of a robot without loops: every joint has its own, so there is nothing to do.

    joints: those with one coordinate; q_at, v_at: their places in the tree's q and rates; own: which of them
    are independent, own_v: their places in qd, qdd and tau.
    """

    own: slice | np.ndarray = slice(None)
    condition: float | None = None  # of the loops at the last position
    branch: object = None  # on which loops are assembled: what `close` begins from
    unrealized = 0.0  # the largest torque at an independent joint that driven joints could not bring about

    def __init__(self, tree: Robot):
        self.joints = tuple(j for j in tree.independent_joints if j.type.is_scalar)
        self.names = tuple(joint.name for joint in self.joints)
        self.q_at = np.array([joint.q.start for joint in self.joints], dtype=int)
        self.v_at = self.own_v = np.array([joint.v.start for joint in self.joints], dtype=int)
        self.scalar_only = np.array_equal(self.q_at, np.arange(tree.nq))
        self._nv = tree.nv

    @property
    def own_names(self):
        return tuple(np.array(self.names, dtype=object)[self.own])

    def resumed(self, before: "Coordinates") -> "Coordinates":
        """A copy that keeps what was known of the robot before, such as the branch of its loops."""
        return self

    def drive(self, names, weights):
        """Let these joints bear the torques, see Actuation."""

    def close(self, q):
        """Position (nq,) of which the independent joints are given, and others if they are not NaN."""
        return q

    def close_all(self, q):
        """Closed positions of a trajectory (k, nq); what is NaN follows from the point before."""
        return q

    def forget(self, positions, unsaid):
        """Positions (k, joints) of a trajectory: dependent joints of later points that nobody has given,
        unsaid (k, joints) bool, become NaN."""
        return positions

    def spread(self, q, qd, qdd, tau) -> Spread:
        """Over all joints, of a closed position or many."""
        return Spread(q, qd, qdd, tau)

    def require_regular(self, q):
        """Raise SolutionError when the loops are open or singular at q (nq,)."""

    def gather(self, q, torques):
        """tau (nv,) of what torques (nv of the tree,) at all joints do."""
        return torques

    def efforts_needed(self, forward):
        """Numbers of the joints whose effort has to be known where accelerations are asked, forward (nv,)
        bool."""
        return np.arange(len(self.joints))[self.own][np.asarray(forward)[self.own_v]]

    def collect(self, q, efforts):
        """tau (..., nv) of efforts (..., joints) at positions (..., nq)."""
        tau = np.zeros((*efforts.shape[:-1], self._nv))
        tau[..., self.own_v] = efforts[..., self.own]
        return tau


class LoopCoordinates(Coordinates):
    """Of a robot with loops: dependent joints follow from the independent ones, on the branch where they were
    last."""

    def __init__(self, closing: Closing):
        self._mechanism, self._closing = closing.mechanism, closing
        super().__init__(closing.mechanism.tree)
        number = {name: k for k, name in enumerate(self.names)}
        independent = [j for j in self._mechanism.independent_joints if j.type.is_scalar]
        self.own = np.array([number[joint.name] for joint in independent], dtype=int)
        self.own_v = np.array([joint.v.start for joint in independent], dtype=int)
        self.scalar_only, self._nv = False, self._mechanism.nv
        several = [joint for joint in self._mechanism.tree.independent_joints if not joint.type.is_scalar]
        self._unmeasured = [k for j in several if not j.type.is_free for k in range(j.q.start, j.q.stop)]
        self.branch: np.ndarray | None = None
        self._actuation: Actuation | None = None
        self._driven: list[int] = []  # numbers of its joints

    def resumed(self, before):
        if isinstance(before, LoopCoordinates):
            self.branch, self.condition = before.branch, before.condition
        return self

    def drive(self, names, weights):
        self._actuation = Actuation(self._mechanism, names, weights or None) if names else None
        self._driven = [self.names.index(name) for name in names]
        self.unrealized = 0.0

    def close(self, q):
        """Raises ClosureError."""
        self.branch, self.condition = self._following(q, self.branch)
        return self.branch

    def _following(self, q, last):
        if self._unmeasured:
            q[self._unmeasured] = np.nan
        return self._closing.following(q, last)

    def close_all(self, q):
        closed, last = np.empty_like(q), self.branch
        for k, one in enumerate(q):
            last, _ = self._following(one, last)
            closed[k] = last
        return closed

    def forget(self, positions, unsaid):
        dependent = np.setdiff1d(np.arange(len(self.joints)), np.arange(len(self.joints))[self.own])
        positions = positions.copy()
        later = positions[1:, dependent]
        later[unsaid[1:, dependent]] = np.nan
        positions[1:, dependent] = later
        return positions

    def spread(self, q, qd, qdd, tau):
        if q.ndim == 1:
            rates, accelerations, G = self._closing.spread(q, qd, qdd)
        else:
            (_, rates, accelerations), G = spanning(self._mechanism, q, qd, qdd), None
        torques = np.zeros((*q.shape[:-1], self._mechanism.tree.nv))
        if self._actuation is None:
            torques[..., self._mechanism.independent] = tau
        else:
            driven = self._actuation.from_coordinates(q, tau, G)
            torques[..., self._actuation.at] = driven.torques
            if q.ndim == 1:  # not of a request
                self.unrealized = float(np.abs(driven.rest[self.own_v]).max(initial=0.0))
        return Spread(q, rates, accelerations, torques)

    def require_regular(self, q):
        if not self._closing.is_regular(q):
            raise SolutionError(self._closing.why_not(q))

    def gather(self, q, torques):
        zero = np.zeros(self._mechanism.nv)
        return self._closing.spread(q, zero, zero)[2].T @ torques

    def efforts_needed(self, forward):
        if self._actuation is None:
            return super().efforts_needed(forward)
        return np.array(self._driven if np.any(forward) else [], dtype=int)

    def collect(self, q, efforts):
        if self._actuation is None:
            return super().collect(q, efforts)
        return self._actuation.to_coordinates(q, efforts[..., self._driven])


class Closed(Protocol):
    """A robot that is served; closing: what closes its loops."""

    @property
    def model(self) -> Robot: ...
    @property
    def closing(self) -> Closing | None: ...


def coordinates_of(robot: Closed) -> Coordinates:
    """Those of a robot that is served."""
    if robot.closing is not None:
        return LoopCoordinates(robot.closing)
    return Coordinates(robot.model.tree)
