"""How the joints that are measured and published stand to the coordinates of the robot that are computed
with."""

from typing import NamedTuple

import numpy as np

from dynamics_node.backends.closing import Closing
from dynamics_node.backends.loops import why_not
from dynamics_node.loops import ClosureError, close_loops, continued, first_closed
from dynamics_node.model import Model
from dynamics_node.node.build_job import Robot
from dynamics_node.solver import SolutionError


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

    def __init__(self, tree: Model):
        self.joints = tuple(j for j in tree.independent_joints if j.kind != "floating")
        self.names = tuple(joint.name for joint in self.joints)
        self.q_at = np.array([joint.q.start for joint in self.joints], dtype=int)
        self.v_at = self.own_v = np.array([joint.v.start for joint in self.joints], dtype=int)
        self.scalar_only = np.array_equal(self.q_at, np.arange(tree.nq))

    @property
    def own_names(self):
        return tuple(np.array(self.names, dtype=object)[self.own])

    def resumed(self, before: "Coordinates") -> "Coordinates":
        """The same, with what was known before of the same robot."""
        return self

    def close(self, q):
        """Position (nq,) of which the independent joints are given, and others if they are not NaN."""
        return q

    def close_all(self, q):
        """The same of many (k, nq); what is NaN is taken from the last one position."""
        return q

    def spread(self, q, qd, qdd, tau) -> Spread:
        """Over all joints, of a closed position or many."""
        return Spread(q, qd, qdd, tau)

    def require_regular(self, q):
        """Raise SolutionError when the loops are open or singular at q (nq,)."""

    def gather(self, q, torques):
        """tau (nv,) of what torques (nv of the tree,) at all joints do."""
        return torques


class LoopCoordinates(Coordinates):
    """Of a Mechanism: dependent joints follow from the independent ones, on the branch where they were
    last."""

    def __init__(self, closing: Closing):
        self._mechanism, self._closing = closing.mechanism, closing
        super().__init__(closing.mechanism.tree)
        number = {name: k for k, name in enumerate(self.names)}
        independent = [j for j in self._mechanism.independent_joints if j.kind != "floating"]
        self.own = np.array([number[joint.name] for joint in independent], dtype=int)
        self.own_v = np.array([joint.v.start for joint in independent], dtype=int)
        self.scalar_only = False
        self._last: np.ndarray | None = None

    def resumed(self, before):
        self._last, self.condition = before._last, before.condition
        return self

    def close(self, q):
        """Raises ClosureError."""
        start = self._filled(q)
        if self._last is None:
            start = first_closed(self._mechanism, start)
        try:
            closed, self.condition = self._closing(start)
        except ClosureError:
            closed, self.condition = self._closing(continued(self._mechanism, self._last, start))
        self._last = closed
        return closed

    def close_all(self, q):
        return close_loops(self._mechanism, self._filled(q))

    def _filled(self, q):
        known = self._mechanism.neutral() if self._last is None else self._last
        return np.where(np.isnan(q), known, q)

    def spread(self, q, qd, qdd, tau):
        if q.ndim == 1:
            rates, accelerations, _ = self._closing.spread(q, qd, qdd)
        else:
            _, rates, accelerations = self._mechanism.spanning(q, qd, qdd)
        torques = np.zeros((*q.shape[:-1], self._mechanism.tree.nv))
        torques[..., self._mechanism.independent] = tau
        return Spread(q, rates, accelerations, torques)

    def require_regular(self, q):
        if not self._closing.is_regular(q):
            raise SolutionError(why_not(self._mechanism, q))

    def gather(self, q, torques):
        zero = np.zeros(self._mechanism.nv)
        return self._closing.spread(q, zero, zero)[2].T @ torques


def coordinates_of(robot: Robot) -> Coordinates:
    """Those of a robot that is served."""
    return Coordinates(robot.model) if robot.closing is None else LoopCoordinates(robot.closing)
