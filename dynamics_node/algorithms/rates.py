"""Rates of all joints of the tree from those of the independent ones: qd = G yd, qdd = G ydd + g, and back
with G^T (paper 3, sec. III). For a tree, G is the identity and nothing is multiplied.

`Rates` is for one state, on symbols; `SampledRates` for many, as numbers.
"""

from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.constraint_elimination import ConstraintElimination
from dynamics_node.algorithms.constraint_rates import change_program, velocity_program
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.equations import counting_equations, gaps, turned
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.state_arrays import tangent_map
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import Program, interpret, matvec, symmetric, trace, transpose


class Projection:
    """Projection by a matrix G (..., nv of the tree, nv)."""

    G: Any

    def independent(self, tau):
        """Torques (..., nv of the tree) of all joints -> those (..., nv) that act at the independent ones."""
        return matvec(transpose(self.G), tau)

    def rows(self, matrix):
        """Rows of the joints of the tree -> rows of the independent ones."""
        return transpose(self.G) @ matrix

    def columns(self, matrix):
        """Columns of the joints of the tree -> columns of the independent ones."""
        return matrix @ self.G

    def congruence(self, matrix):
        """G^T M G of a symmetric matrix."""
        return symmetric(self.columns(self.rows(matrix)))

    def squares(self, sizes):
        """Sums of sizes (..., nv of the tree), weighted with the squares of G: (..., nv)."""
        return matvec(transpose(self.G * self.G), sizes)


class Identity(Projection):
    """For a tree: its joints are the independent ones. qd (..., nv): unchanged."""

    condition = 1.0

    def __init__(self, nv, qd=None):
        self.G, self.qd = np.eye(nv), qd

    def accelerations(self, qdd):
        """qdd (..., nv)."""
        return qdd

    def turning(self, p):
        """dG/dt is zero."""
        return 0.0

    def along_change(self, matrix):
        """dG/dt is zero."""
        return 0.0

    def back_along_change(self, matrix):
        """dG/dt is zero."""
        return 0.0

    def _same(self, array):
        return array

    independent = rows = columns = congruence = squares = _same


SINGULAR = 1e12  # largest squared condition of regular constraints
CONTRADICTION = 1e24  # factor of squared residuals: 1e-6 counts as singular
MANY = 3  # with more independent joints, G of a cluster costs more than three solves


class ExplicitRates(NamedTuple):
    """G (nv of the tree, nv), g (nv of the tree,), and the condition of the constraints. That is 1 plus the
    squares of the products of the norms of K_dep and its inverse, summed over the parts that are solved one
    after the other. It is also large if there are more equations than unknowns and they contradict each
    other, as in a rigid branch of assembly."""

    G: np.ndarray
    g: np.ndarray
    condition: np.ndarray


def rates_at(robot, q, qd=None, explicit=False) -> "Rates | Identity":
    """The Rates of one state on symbols or numbers, with qd (nv,) zero by default; for a tree, also of many
    states, the Identity. explicit: as in Rates."""
    if not robot.constrained:
        return Identity(robot.nv, np.zeros(robot.nv) if qd is None else qd)
    return Rates(robot, q, np.zeros(robot.nv) if qd is None else qd, explicit)


def explicit_rates(robot, q, yd) -> ExplicitRates:
    """The ExplicitRates of one state on symbols: closed q (nq,), rates yd (nv,) of the independent joints."""
    rates = Rates(robot, q, yd, explicit=True)
    return ExplicitRates(rates.G, rates.accelerations(np.zeros(robot.nv)), rates.condition)


def loop_health(robot: Robot, q, condition):
    """(2,): the squared condition of the constraints, from `explicit_rates`, and the sum of their squared
    residuals at q (nq,), on symbols."""
    return np.array([condition, squared_residuals(robot, q)], dtype=object)


def squared_residuals(robot: Robot, q):
    """The sum of the squared residuals of the constraints at q (nq,), on symbols."""
    missed = [make(robot.tree, robot.constraints, q) for make in (gaps, turned)]
    return sum(part @ part for part in missed)


class Rates(Projection):
    """The constraints at one state on symbols: qd (nv of the tree,), qdd from ydd, and torques of the
    independent joints from those of all.

    explicit: G is always formed. Otherwise a cluster's G is left out if three solves with K_dep, for qd, qdd
    and torques, take fewer operations than one for every independent joint.
    """

    def __init__(self, robot, q, yd, explicit=False):
        column = {v: k for k, v in enumerate(robot.independent.tolist())}
        tied = [cluster for cluster in robot.clusters if cluster.dependent]
        self._clusters = [_Equations(robot.tree, cluster, column, q) for cluster in tied]
        self._implicit = [] if explicit else [cluster for cluster in self._clusters if cluster.implicit]
        self.G = np.zeros((robot.tree.nv, robot.nv), dtype=object)
        self.G[robot.independent, np.arange(robot.nv)] = 1.0
        for cluster in self._clusters:
            if cluster not in self._implicit:
                self.G[np.ix_(cluster.dependent, cluster.columns)] = cluster.block
        self.qd = self._along(yd)
        for cluster in self._implicit:
            self.qd[cluster.dependent] = cluster.following(yd)
        self._g = {id(cluster): cluster.right_hand_side(self.qd) for cluster in self._clusters}

    def _along(self, yd):
        return self.G @ yd + np.zeros(len(self.G), dtype=object)

    def accelerations(self, ydd):
        """qdd (nv of the tree,)."""
        qdd = self._along(ydd)
        for cluster in self._clusters:
            k = self._g[id(cluster)]
            if cluster in self._implicit:
                qdd[cluster.dependent] = cluster.following(ydd, k)
            else:
                qdd[cluster.dependent] = qdd[cluster.dependent] + cluster.elimination.solve(k[:, None])[:, 0]
        return qdd

    def independent(self, tau):
        """G^T tau (nv,) of torques (nv of the tree,)."""
        out = self.G.T @ tau
        for cluster in self._implicit:
            out[cluster.columns] = out[cluster.columns] + cluster.independent_torques(tau)
        return out

    def turning(self, p):
        """Torques (nv of the tree,) that `independent` takes to (dG/dt)^T p, p (nv of the tree,): K G = 0 at
        all times, so K_dep dG_dep = -(dK/dt) G."""
        torques = np.zeros(len(self.G), dtype=object)
        for cluster in self._clusters:
            torques = torques - cluster.turning(self.qd, p)
        return torques

    @cached_property
    def _change(self):
        """dG/dt (nv of the tree, nv), for an explicit G."""
        return np.stack([self.independent(self.turning(unit)) for unit in np.eye(len(self.G))])

    def along_change(self, matrix):
        """A matrix (..., nv of the tree) times dG/dt."""
        return matrix @ self._change

    def back_along_change(self, matrix):
        """(dG/dt)^T times a matrix (nv of the tree, ...)."""
        return self._change.T @ matrix

    @property
    def condition(self):
        """See ExplicitRates."""
        return sum((cluster.condition() for cluster in self._clusters), np.array(1.0, dtype=object))


class _Equations:
    """K qd = 0 and K qdd = k of a cluster at a position. columns: the cluster's columns of G."""

    def __init__(self, tree, cluster, column, q):
        self.columns = [column[v] for v in cluster.independent]
        self.dependent = list(cluster.dependent)
        self._rows, sizes = counting_equations(tree, cluster)
        self._program, self._q = velocity_program(tree, cluster.constraints), q
        self._constraints = tree, cluster.constraints
        K = interpret(self._program, q=q, qd=np.zeros(tree.nv))["K"][self._rows]
        self._K_dep, self._K_ind = K[:, self.dependent], K[:, list(cluster.independent)]
        self.elimination = ConstraintElimination(self._K_dep, sizes)

    @property
    def implicit(self):
        """Whether G is not formed."""
        return len(self.columns) >= MANY and self.elimination.orthogonal and self._is_square

    @property
    def _is_square(self):
        return len(self._rows) == len(self.dependent)

    @cached_property
    def block(self):
        """The block of G: rows of the dependent, columns of the independent joints."""
        return -self.elimination.solve(self._K_ind)

    def right_hand_side(self, qd):
        """k (rows,)."""
        return interpret(self._program, q=self._q, qd=qd)["k"][self._rows]

    def following(self, rates, k=0.0):
        """Rates of the dependent joints for those of all independent ones, K_dep x = k - K_ind y."""
        return self.elimination.solve((k - self._K_ind @ rates[self.columns])[:, None])[:, 0]

    def independent_torques(self, tau):
        """The torques of the dependent joints, projected to the independent ones."""
        forces = self.elimination.solve_transposed(tau[self.dependent][:, None])[:, 0]
        return -(self._K_ind.T @ forces)

    def turning(self, qd, p):
        """(dK/dt)^T x (nv of the tree,), where K_dep^T x = p_dep."""
        forces = np.zeros(len(self._program.outputs["K"]), dtype=object)
        forces[self._rows] = self.elimination.solve_transposed(p[self.dependent][:, None])[:, 0]
        return interpret(change_program(*self._constraints), q=self._q, qd=qd, forces=forces)["change"]

    def condition(self):
        """The cluster's share of ExplicitRates.condition."""
        if self._is_square:
            return self.elimination.condition()
        missed = self._K_dep @ self.block + self._K_ind
        return self.elimination.condition() + CONTRADICTION * (missed * missed).sum()


def tangent(robot, q):
    """(nq, nv): dq/dt = T qd, in which loops stay closed."""
    return rates_at(robot, q, explicit=True).columns(tangent_map(robot.tree, q))


# --- many states, as numbers --------------------------------------------------------------------------------


@cached_on_robot
def spanning_program(robot, with_condition=False) -> Program:
    """q (nq,), qd, qdd (nv,) -> rates, accelerations (nv of the tree,), and G (nv of the tree, nv);
    with_condition: also the condition of the constraints."""

    def function(q, qd, qdd):
        G, g, condition = explicit_rates(robot, q, qd)
        spread = {"rates": G @ qd, "accelerations": G @ qdd + g, "G": G}
        return spread | ({"condition": condition} if with_condition else {})

    return trace(function, {"q": (robot.nq,), "qd": (robot.nv,), "qdd": (robot.nv,)})


@explains_wrong_calls
def spanning(
    robot: Robot, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None
) -> tuple[np.ndarray | None, ...]:
    """Return positions, velocities and accelerations of every joint, also of implicit and explicit ones.

    Parameters
    ----------
    robot : Robot
        A tree, or a robot with loops, gears or belts.
    q : array_like (..., nq)
        Closed positions, rad or m.
    qd, qdd : array_like (..., nv), optional
        Velocities and accelerations of the independent joints. Accelerations need velocities if the robot has
        loops.

    Returns
    -------
    tuple of three arrays (..., n)
        Positions, velocities and accelerations of the joints of `robot.bodies` in order, with all their
        coordinates; None for an omitted argument. Velocities at singular positions are NaN.

    References
    ----------
    Chignoli, Adrian, Kim and Wensing, "Recursive Rigid-Body Dynamics Algorithms for Systems with Kinematic
    Loops", sec. III: qd = G yd, qdd = G ydd + g.

    Examples
    --------
    >>> from dynamics_demo.robots import four_bar
    >>> robot = dn.parse_robot(four_bar())
    >>> q = dn.first_closed(robot, [0.5, 0.0, 0.0])
    >>> positions, velocities, _ = dn.spanning(robot, q, [1.0])  # the crank turns at 1 rad/s
    >>> dict(zip(robot.q_names, velocities.round(3).tolist()))
    {'crank_j': 1.0, 'coupler_j': -1.506, 'rocker_j': -0.873}
    """
    state = [None if array is None else np.asarray(array, dtype=float) for array in (q, qd, qdd)]
    rates = (None, None) if qd is None else spread_rates(robot, *state)
    joints = [body.joint for body in robot.bodies]
    every = [
        None if array is None else np.concatenate([of(joint)(array) for joint in joints], axis=-1)
        for of, array in zip((_POSITION, _RATE, _RATE), (state[0], *rates), strict=True)
    ]
    return tuple(every)


_POSITION, _RATE = attrgetter("position"), attrgetter("rate")


def spread_rates(robot: Robot, q, qd, qdd=None):
    """Rates and accelerations (..., nv of the tree) at closed q (..., nq), from those (..., nv) of the
    independent joints; None for omitted accelerations."""
    rates = sampled_rates(robot, q, qd)
    return rates.qd, None if qdd is None else rates.accelerations(qdd)


def _spread(robot, q, qd, qdd):
    with np.errstate(all="ignore"):  # the condition marks singular states
        spread = interpret(spanning_program(robot, with_condition=True), q=q, qd=qd, qdd=qdd)
    singular = ~(spread.pop("condition") <= SINGULAR)
    for array in spread.values():
        array[singular] = np.nan
    return spread


class SampledRates(Projection):
    """Projection at closed positions q (..., nq) and rates qd (..., nv) as numbers; NaN at singular
    positions."""

    def __init__(self, robot, q, qd):
        spread = _spread(robot, q, qd, np.zeros(robot.nv))
        self.G, self.qd, self._g = spread["G"], spread["rates"], spread["accelerations"]

    def accelerations(self, qdd):
        """qdd (..., nv of the tree)."""
        return matvec(self.G, qdd) + self._g


def sampled_rates(robot: Robot, q, qd=None) -> SampledRates | Identity:
    """The rates of many states as numbers, qd (nv,) being zero by default."""
    qd = np.zeros(robot.nv) if qd is None else qd
    return SampledRates(robot, q, qd) if robot.constrained else Identity(robot.nv, qd)


def closure_matrix(robot, q):
    """G (..., nv of the tree, nv) at closed q (..., nq): rates of all joints by those of the independent
    ones; NaN at singular positions."""
    zero = np.zeros(robot.nv)
    return _spread(robot, q, zero, zero)["G"]
