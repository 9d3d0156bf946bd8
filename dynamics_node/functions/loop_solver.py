"""Closed positions at the rate of a controller: Newton steps, and the rates of all joints."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.first_positions import continued, first_closed
from dynamics_node.algorithms.health import HEALTHY, why_not
from dynamics_node.algorithms.loop_closure import LAST_STEP, close_loops
from dynamics_node.display import titled
from dynamics_node.errors import ClosureError
from dynamics_node.functions.function import Function
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.newton import LARGEST, TOLERANCE, bends, positions_of

MOST_STEPS = 8  # two or three suffice from a position a few milliseconds ago


@dataclass(frozen=True, eq=False)
class LoopSolver:
    """`close_loops` of one position, in microseconds if it is nearly closed. Picklable.

    `build_loop_solver` returns it. A call closes one position; `following` closes successive ones.

    Attributes
    ----------
    robot : Robot
        A robot with closed loops.
    step : Function
        q (nq,) -> the position after a Newton step, and health at q.
    rates : Function
        q (nq,), qd and qdd (nv,) -> rates and accelerations of all joints, and G: see `spread`.

    Examples
    --------
    >>> from dynamics_demo.robots import four_bar
    >>> solver = dn.build_loop_solver(dn.parse_robot(four_bar()), backend="numpy")
    >>> q, condition = solver([0.3, -1.3, -1.6])  # crank, coupler, rocker; nearly closed
    >>> q.round(3)
    array([ 0.3  , -1.337, -1.581])
    >>> solver.following([0.31, np.nan, np.nan], q)[0].round(3)  # the crank moves on
    array([ 0.31 , -1.354, -1.591])
    >>> qd, qdd, G = solver.spread(q, [1.0], [0.0])  # the crank turns at 1 rad/s
    >>> qd.round(2)
    array([ 1.  , -1.69, -0.94])
    """

    robot: Robot
    step: Function
    rates: Function

    def __repr__(self):
        robot = self.robot
        return titled(
            f"LoopSolver of {robot.name!r}",
            independent=robot.v_names,
            implicit=[name for name in robot.tree.v_names if name not in robot.v_names],
            loops=[constraint.name for constraint in robot.constraints],
            backend=self.step.runner.backend,
        )

    @cached_property
    def _nonlinear(self):
        """Indices in q of the joints that appear in a nonlinear constraint."""
        tree = self.robot.tree
        bent = bends(tree, self.robot.constraints, range(tree.nv))
        return positions_of(tree, np.flatnonzero(bent).tolist())

    def __call__(self, q: ArrayLike) -> tuple[np.ndarray, float]:
        """Close one position.

        Parameters
        ----------
        q : array_like (nq,)
            A position, best a nearly closed one.

        Returns
        -------
        q : ndarray (nq,)
            The closed position. Independent joints stay.
        condition : float
            The condition number of the constraints there.

        Raises
        ------
        ClosureError
            If no closed position is near.
        """
        closed = np.array(q, dtype=float)
        for _ in range(MOST_STEPS):
            following, health = self.step(closed, errors="nan")
            change = (following - closed)[self._nonlinear]
            if not change @ change <= LARGEST**2:
                break
            closed = following
            if health[1] < TOLERANCE**2 and change @ change < LAST_STEP**2:
                return closed, sqrt(health[0])
        closed = close_loops(self.robot, q)
        return closed, sqrt(self.step(closed, errors="nan")[1][0])

    def following(self, q: ArrayLike, last: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Close a position on the branch of the previous one.

        Parameters
        ----------
        q : array_like (nq,)
            Positions of the independent joints, and start values of the others. Those that are NaN start at
            their previous positions.
        last : ndarray (nq,), optional
            The previous position, closed. Without it the result is in the assembly nearest to zero.

        Returns
        -------
        q : ndarray (nq,)
            The closed position.
        condition : float
            The condition number of the constraints there.

        Raises
        ------
        ClosureError
            If no closed position is found; it names the constraints.
        """
        if last is None:
            start = np.where(np.isnan(q), self.robot.neutral(), q)
            return self(first_closed(self.robot, start))
        start = np.where(np.isnan(q), last, q)
        try:
            return self(start)
        except ClosureError:
            return self(continued(self.robot, last, start))

    def is_regular(self, q: ArrayLike) -> bool:
        """Test whether the loops are closed and not singular.

        Parameters
        ----------
        q : array_like (nq,)
            A position.

        Returns
        -------
        bool
        """
        return bool((self.step(q, errors="nan")[1] <= HEALTHY).all())

    def why_not(self, q: np.ndarray) -> str:
        """Return the reason why the loops are open or singular.

        Parameters
        ----------
        q : ndarray (nq,)
            A position that is not regular.

        Returns
        -------
        str
            A phrase with the name of a constraint, if one is known to be the reason.
        """
        return why_not(self.robot, None, q) or "a loop is open or singular at this position"

    def spread(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute rates and accelerations of all joints from those of the independent ones.

        Parameters
        ----------
        q : array_like (nq,)
            A closed position.
        qd, qdd : array_like (nv,)
            Rates and accelerations of the independent joints, rad or m, s.

        Returns
        -------
        qd, qdd : ndarray (nv of the tree,)
            Rates and accelerations of all joints; NaN where the loops are open or singular.
        G : ndarray (nv of the tree, nv)
            The rates are G times those of the independent joints.

        References
        ----------
        Chignoli, Adrian, Kim and Wensing, Recursive rigid-body dynamics algorithms for systems with kinematic
        loops: the explicit constraints qd = G yd, qdd = G ydd + g.
        """
        return self.rates(q, qd, qdd, errors="nan")
