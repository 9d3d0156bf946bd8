"""Maps measured and published joints to the solver's independent coordinates and back."""

from typing import NamedTuple, Protocol

import numpy as np

from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.errors import ClosureError, SolutionError
from dynamics_node.functions import LoopSolver
from dynamics_node.robot import Robot

CONTRADICTS = 0.05  # rad or m between the measured and the computed position of an explicit joint


class Spread(NamedTuple):
    """q, qd, qdd and torques of all joints: the coordinates of the tree, (..., nq) and (..., nv of the tree),
    followed by one number per explicit joint."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray


class JointCoordinates:
    """Coordinates of a robot without loops.

    joints: scalar joints, explicit ones last; q_at, v_at: their indices in a Spread; counted: number of
    joints with coordinates; independent: indices of the independent joints; independent_v: their indices in
    qd, qdd and tau.
    """

    independent: slice | np.ndarray = slice(None)
    condition: float | None = None  # condition number of the loops at the last position
    branch: object = None  # last closed position, where `close` starts
    unrealized = 0.0  # largest torque at an independent joint that driven joints cannot produce

    def __init__(self, robot: Robot, explicit=True):
        """explicit: whether to include explicit joints. Mimic joints are included only for robots with loops:
        controllers of other robots reject trajectories with them."""
        tree = robot.tree
        explicit_joints = (
            j for j in tree.explicit_joints if robot.constrained or not (j.masters and j.masters.is_mimic)
        )
        self._robot, self.explicit = robot, tuple(explicit_joints) if explicit else ()
        measured = tuple(joint for joint in tree.independent_joints if joint.type.is_scalar)
        self.joints, self.counted = (*measured, *self.explicit), len(measured)
        self.names = tuple(joint.name for joint in self.joints)
        more = np.arange(len(self.explicit))
        self.q_at = np.array([*(j.q.start for j in measured), *(tree.nq + more)], dtype=int)
        self.v_at = np.array([*(j.v.start for j in measured), *(tree.nv + more)], dtype=int)
        self.independent_v = self.v_at[: self.counted]
        self.scalar_only = np.array_equal(self.q_at, np.arange(tree.nq))
        self.independent = np.arange(self.counted) if self.explicit else slice(None)
        self._nv, self._nv_of_tree = tree.nv, tree.nv
        self._places = {name: v for v, name in enumerate(tree.v_names)} | {
            joint.name: tree.nv + k for k, joint in enumerate(self.explicit)
        }
        self._actuation: Actuation | None = None
        self._driven: list[int] = []  # indices of its joints

    @property
    def independent_names(self):
        return tuple(np.array(self.names, dtype=object)[self.independent])

    def resumed(self, before: "JointCoordinates") -> "JointCoordinates":
        """These coordinates with the state of the previous ones, such as the branch of the loops."""
        return self

    def drive(self, names, weights):
        """Use these joints as the actuated ones, see Actuation."""
        self._actuation = Actuation(self._robot, names, weights or None) if names else None
        self._driven = [self.names.index(name) for name in names]
        self.unrealized = 0.0

    def position(self, positions):
        """q (nq,) of positions (joints,); zero for joints with several coordinates."""
        q = np.zeros(self._robot.nq)
        q[self.q_at[: self.counted]] = positions[: self.counted]
        return q

    def contradicted(self, positions) -> list[str]:
        """Names of explicit joints whose measured position, of positions (joints,), differs from that of
        their masters; it is ignored."""
        if not self.explicit:
            return []
        with np.errstate(invalid="ignore"):  # NaN of joints without a measurement
            q = self.position(positions)
            far = [
                joint.position(q)[0] - at
                for joint, at in zip(self.explicit, positions[self.counted :], strict=True)
            ]
        return [joint.name for joint, off in zip(self.explicit, far, strict=True) if abs(off) > CONTRADICTS]

    def close(self, q):
        """Closed position (nq,) of the independent joints of q; entries of others are initial values or
        NaN."""
        return q

    def following(self, q, last=None):
        """The closed position (nq,) near q, whose dependent joints may be NaN, on the branch of `last`, by
        default the latest position. Raises ClosureError."""
        return q

    def close_all(self, q):
        """Closed positions of a trajectory (k, nq); NaN entries continue from the previous point."""
        return q

    def forget(self, positions, not_given):
        """Positions (k, joints) of a trajectory, where dependent joints of later points become NaN if
        not_given (k, joints) bool."""
        return positions

    def spread(self, q, qd, qdd, tau) -> Spread:
        """All joints, at one or many closed positions."""
        if not self.explicit:
            return Spread(q, qd, qdd, tau)
        return self._with_explicit(q, qd, qdd, self._torques(q, tau, np.eye(self._nv)))

    def tree_rates(self, q, qd):
        """Rates (..., nv of the tree) at q (..., nq)."""
        return qd

    def _torques(self, q, tau, G=None):
        """Torques of a Spread from tau (..., nv) at closed q: at the independent or the driven joints."""
        torques = np.zeros((*q.shape[:-1], self._nv_of_tree + len(self.explicit)))
        if self._actuation is None:
            torques[..., self._robot.independent] = tau
        else:
            driven = self._actuation.from_coordinates(q, tau, G)
            torques[..., [self._places[name] for name in self._actuation.joints]] = driven.torques
            if q.ndim == 1:  # not for requests
                self.unrealized = float(np.abs(driven.rest[self.independent_v]).max(initial=0.0))
        return torques

    def _with_explicit(self, q, rates, accelerations, torques) -> Spread:
        if not self.explicit:
            return Spread(q, rates, accelerations, torques)
        positions = np.concatenate([q, *(joint.position(q) for joint in self.explicit)], axis=-1)
        rates, accelerations = (
            np.concatenate([values, *(joint.rate(values) for joint in self.explicit)], axis=-1)
            for values in (rates, accelerations)
        )
        return Spread(positions, rates, accelerations, torques)

    def require_regular(self, q):
        """Raise SolutionError if the loops are open or singular at q (nq,)."""

    def gather(self, q, torques):
        """tau (nv,) equivalent to torques (nv of the tree,) at all joints."""
        return torques

    def efforts_needed(self, forward):
        """Indices of the joints whose effort must be known; forward (nv,) bool: coordinates whose
        acceleration is computed."""
        if self._actuation is not None:
            return np.array(self._driven if np.any(forward) else [], dtype=int)
        return np.arange(len(self.joints))[self.independent][np.asarray(forward)[self.independent_v]]

    def collect(self, q, efforts):
        """tau (..., nv) of efforts (..., joints) at positions (..., nq)."""
        if self._actuation is not None:
            return self._actuation.to_coordinates(q, efforts[..., self._driven])
        tau = np.zeros((*efforts.shape[:-1], self._nv))
        tau[..., self.independent_v] = efforts[..., self.independent]
        return tau


class LoopCoordinates(JointCoordinates):
    """Coordinates of a robot with loops: dependent joints follow from the independent ones, on the branch of
    the last position."""

    def __init__(self, loop_solver: LoopSolver, explicit=True):
        self._loop_solver = loop_solver
        super().__init__(loop_solver.robot, explicit)
        number = {name: k for k, name in enumerate(self.names)}
        independent = [j for j in self._robot.independent_joints if j.type.is_scalar]
        self.independent = np.array([number[joint.name] for joint in independent], dtype=int)
        self.independent_v = np.array([joint.v.start for joint in independent], dtype=int)
        self.scalar_only, self._nv = False, self._robot.nv
        several = [joint for joint in self._robot.tree.independent_joints if not joint.type.is_scalar]
        self._unmeasured = [k for j in several if not j.type.is_free for k in range(j.q.start, j.q.stop)]
        self.branch: np.ndarray | None = None

    def resumed(self, before):
        if isinstance(before, LoopCoordinates):
            self.branch, self.condition = before.branch, before.condition
        return self

    def close(self, q):
        """See JointCoordinates.close. Raises ClosureError."""
        self.branch, self.condition = self._following(q, self.branch)
        return self.branch

    def following(self, q, last=None):
        return self._following(q, self.branch if last is None else last)[0]

    def _following(self, q, last):
        if self._unmeasured:
            q[self._unmeasured] = np.nan
        return self._loop_solver.following(q, last)

    def close_all(self, q):
        closed, last = np.empty_like(q), None
        for k, one in enumerate(q):
            try:
                closed[k] = last = self.following(one, last)
            except ClosureError as error:
                raise ClosureError(f"point {k}: {error}" if len(q) > 1 else str(error)) from None
        return closed

    def forget(self, positions, not_given):
        numbers = np.arange(self.counted)
        dependent = np.setdiff1d(numbers, numbers[self.independent])
        positions = positions.copy()
        later = positions[1:, dependent]
        later[not_given[1:, dependent]] = np.nan
        positions[1:, dependent] = later
        return positions

    def spread(self, q, qd, qdd, tau):
        if q.ndim == 1:
            rates, accelerations, G = self._loop_solver.spread(q, qd, qdd)
        else:
            (rates, accelerations), G = spread_rates(self._robot, q, qd, qdd), None
        return self._with_explicit(q, rates, accelerations, self._torques(q, tau, G))

    def tree_rates(self, q, qd):
        return self._loop_solver.spread(q, qd, 0.0 * qd)[0]

    def require_regular(self, q):
        if not self._loop_solver.is_regular(q):
            raise SolutionError(self._loop_solver.why_not(q))

    def gather(self, q, torques):
        zero = np.zeros(self._robot.nv)
        return self._loop_solver.spread(q, zero, zero)[2].T @ torques


class HasLoopSolver(Protocol):
    """A robot in use. loop_solver: None without loops."""

    @property
    def model(self) -> Robot: ...
    @property
    def loop_solver(self) -> LoopSolver | None: ...


def coordinates_of(robot: HasLoopSolver, explicit=True) -> JointCoordinates:
    """Coordinates of a robot in use. explicit: whether to include explicit joints."""
    if robot.loop_solver is not None:
        return LoopCoordinates(robot.loop_solver, explicit)
    return JointCoordinates(robot.model, explicit)
