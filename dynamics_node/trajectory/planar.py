"""Planar mechanisms of points, bars, sliders and angles as Systems (paper 2)."""

from collections.abc import Sequence

import numpy as np

from dynamics_node.algorithms.constraint_elimination import Elimination
from dynamics_node.symbolic import derivative_name, interpret, jacobian, solve_definite, symmetric, trace
from dynamics_node.trajectory.natural import Angle, Bar, Block, Plane, Slider
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.variables import vector

__all__ = ["FOUR_BAR_START", "Angle", "Bar", "Block", "Slider", "four_bar", "planar_system"]


def planar_system(
    name,
    points: dict[str, tuple[float, float] | None],
    blocks: Sequence[Block],
    independent: Sequence[str],
    masses=None,
    gravity=(0.0, -9.81),
) -> System:
    """points: {name: where it is fixed, m, or None: free}; blocks: Bars, Sliders and Angles; independent:
    names of the coordinates that tell the others, of `x POINT`, `y POINT` and angles; masses: {free point:
    kg}.

    q: x and y of every free point, then the angles. Raises ValueError, by name, for what is not there, and
    unless there are as many equations as dependent coordinates.
    """
    plane = Plane(points, tuple(blocks))
    unknown = [one for one in independent if one not in plane.names]
    if unknown:
        raise ValueError(f"{name}: no coordinate {unknown[0]!r}; there are {', '.join(plane.names)}")
    columns = tuple(plane.names.index(one) for one in independent)
    rest = tuple(k for k in range(len(plane.names)) if k not in columns)
    if len(blocks) != len(rest):
        raise ValueError(
            f"{name}: {len(blocks)} equations for {len(rest)} dependent coordinates; {len(columns)} are "
            "independent"
        )
    M, weight = plane.masses(masses or {}, np.array(gravity, dtype=float))
    motion = _Motion(plane, columns, rest, M, weight)
    return System(
        name=name,
        q=vector("q", plane.names, "qd"),
        independent=columns,
        dependent=rest,
        scalars={k: k for k in range(len(plane.names))},
        positions=plane.equations,
        velocities=motion.velocities,
        accelerations=motion.accelerations,
        turned=plane.turned,
        inverse=motion.inverse,
        forward=motion.forward,
    )


class _Motion:
    """Rates and dynamics of coordinates that satisfy phi(q) = 0."""

    def __init__(self, plane, columns, rest, M, weight):
        self._independent, self._dependent, self._M, self._weight = list(columns), list(rest), M, weight
        n = len(plane.names)
        phi = trace(lambda q: {"phi": plane.equations(q)}, {"q": (n,)})
        self._K = jacobian(phi, ["phi"], ["q"])
        rate = trace(lambda q, qd: {"rate": self._jacobian(q) @ qd}, {"q": (n,), "qd": (n,)})
        self._change = jacobian(rate, ["rate"], ["q"])

    def _jacobian(self, q):
        return interpret(self._K, q=q)[derivative_name("phi", "q")]

    def velocities(self, q, qd):
        return self._jacobian(q) @ qd

    def accelerations(self, q, qd, qdd):
        return self._jacobian(q) @ qdd + self._convective(q, qd)

    def _convective(self, q, qd):
        """dK/dt qd."""
        return interpret(self._change, q=q, qd=qd)[derivative_name("rate", "q")] @ qd

    def _elimination(self, q):
        K = self._jacobian(q)
        A = K[:, self._dependent]
        return Elimination(A, np.ones(len(A))), K[:, self._independent]

    def inverse(self, q, qd, qdd):
        """R^T (M qdd - Q)."""
        elimination, K = self._elimination(q)
        Q = self._M @ qdd - self._weight
        forces = elimination.solve_transposed(Q[self._dependent][:, None])[:, 0]
        return Q[self._independent] - K.T @ forces

    def forward(self, q, qd, tau):
        """From R^T M R zdd = tau + R^T (Q - M S c) (paper 2, independent form)."""
        elimination, K = self._elimination(q)
        R = np.zeros((len(q), len(self._independent)), dtype=object)
        R[self._independent, np.arange(len(self._independent))] = 1.0
        R[self._dependent] = -elimination.solve(K)
        Sc = np.zeros(len(q), dtype=object)
        Sc[self._dependent] = -elimination.solve(self._convective(q, qd)[:, None])[:, 0]
        right = tau + R.T @ (self._weight - self._M @ Sc)
        return R @ solve_definite(symmetric(R.T @ self._M @ R), right[:, None])[:, 0] + Sc


# --- the paper's example ------------------------------------------------------------------------------------

FOUR_BAR_POINTS = {"A": (0.0, 0.0), "D": (4.0, 0.0), "P1": None, "P2": None}
FOUR_BAR_BLOCKS = (
    Bar("A", "P1", 1.0, mass=1.0),
    Bar("P1", "P2", 2.0, mass=2.0),
    Bar("P2", "D", 13.0**0.5, mass=4.0),
    Angle("theta", "A", "P1"),
)
FOUR_BAR_START = (1.0, 0.0, 1.0, 2.0, 0.0)  # x and y of P1 and P2, theta


def four_bar() -> System:
    """The paper's Fig. 6: crank A P1, coupler P1 P2, rocker P2 D; the crank's angle is independent."""
    return planar_system("four_bar", FOUR_BAR_POINTS, FOUR_BAR_BLOCKS, ("theta",), gravity=(0.0, -9.8))
