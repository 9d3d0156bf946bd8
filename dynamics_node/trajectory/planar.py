"""Planar mechanisms in natural coordinates: points, bars, sliders, angles (paper 2, Appendix III).

A bar needs no angle: its motion is that of two of its points, linear in their coordinates, so the mass matrix
is constant (Garcia de Jalon and Bayo, Kinematic and Dynamic Simulation of Multibody Systems, sec. 4.2).
"""

from dataclasses import dataclass

import numpy as np

from dynamics_node.loops.elimination import Elimination
from dynamics_node.program import derivative_name, interpret, jacobian, trace
from dynamics_node.spatial import solve_definite, symmetric
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.variables import vector

PERPENDICULAR = np.array([[0.0, -1.0], [1.0, 0.0]])


@dataclass(frozen=True)
class Bar:
    """Two points at a constant distance, m. com (2,): of the mass, kg, in the frame at `start` whose x axis
    points to `end`, its middle by default; inertia: about com, kg m^2, that of a thin rod by default."""

    start: str
    end: str
    length: float
    mass: float = 0.0
    com: tuple[float, float] | None = None
    inertia: float | None = None


@dataclass(frozen=True)
class Slider:
    """A point on the line through two others, fixed ones or the ends of a bar."""

    point: str
    start: str
    end: str


@dataclass(frozen=True)
class Angle:
    """A coordinate, rad: from the x axis to the bar from `start` to `end`.

    Of (y_j - y_i) cos(theta) = (x_j - x_i) sin(theta), one equation that is regular at every angle, where the
    paper switches between two: a Program has no branches. It also holds half a turn away, which `turned` of
    the System tells.
    """

    name: str
    start: str
    end: str


def planar_system(
    name,
    points: dict[str, tuple[float, float] | None],
    blocks,
    independent,
    masses=None,
    gravity=(0.0, -9.81),
) -> System:
    """points: {name: where it is fixed, m, or None: free}; blocks: Bars, Sliders and Angles; independent:
    names of the coordinates that tell the others, of `x POINT`, `y POINT` and angles; masses: {free point:
    kg}.

    q: x and y of every free point, then the angles. Raises ValueError, by name, for what is not there, and
    unless there are as many equations as dependent coordinates.
    """
    plane = _Plane(points, [b for b in blocks if isinstance(b, Bar)], blocks)
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
    M, force = plane.masses(masses or {}, np.array(gravity, dtype=float))
    motion = _Motion(plane, columns, rest, M, force)
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


class _Plane:
    """The points, and the equations of the blocks."""

    def __init__(self, points, bars, blocks):
        self.points, self.bars, self.blocks = points, bars, blocks
        self.angles = [block for block in blocks if isinstance(block, Angle)]
        free = [point for point, place in points.items() if place is None]
        self.names = (*(f"{x} {p}" for p in free for x in "xy"), *(angle.name for angle in self.angles))
        self._at = {point: slice(2 * k, 2 * k + 2) for k, point in enumerate(free)}
        self._lengths = {block: self._length(block) for block in blocks}

    def equations(self, q):
        """phi (rows,), in m."""
        return np.array([self._equation(q, block) for block in self.blocks], dtype=object)

    def turned(self, q):
        return np.array([1.0 - self._along(q, angle) / self._lengths[angle] for angle in self.angles])

    def _equation(self, q, block):
        x, y = self._place(q, block.end) - self._place(q, block.start)
        length = self._lengths[block]
        if isinstance(block, Bar):
            return (x * x + y * y - length * length) * (0.5 / length)
        if isinstance(block, Slider):
            u, v = self._place(q, block.point) - self._place(q, block.start)
            return (u * y - v * x) * (1.0 / length)
        theta = self._angle(q, block)
        return y * np.cos(theta) - x * np.sin(theta)

    def _along(self, q, angle):
        x, y = self._place(q, angle.end) - self._place(q, angle.start)
        theta = self._angle(q, angle)
        return x * np.cos(theta) + y * np.sin(theta)

    def _angle(self, q, block):
        return q[self.names.index(block.name)]

    def _place(self, q, point):
        fixed = self.points[point]
        return q[self._at[point]] if fixed is None else np.array(fixed, dtype=float)

    def _length(self, block):
        """Of the bar or the fixed line that a block is about."""
        for point in {block.start, block.end, getattr(block, "point", block.start)} - set(self.points):
            raise ValueError(f"{block}: there is no point {point!r}")
        ends = {block.start, block.end}
        of_bars = [bar.length for bar in self.bars if {bar.start, bar.end} == ends]
        if of_bars:
            return of_bars[0]
        start, end = self.points[block.start], self.points[block.end]
        if start is None or end is None:
            raise ValueError(f"{block}: there is no bar from {block.start!r} to {block.end!r}")
        return float(np.hypot(*np.subtract(end, start)))

    def masses(self, of_points, gravity):
        """M (n, n), and the weight (n,)."""
        M, force = np.zeros((2, len(self.names), len(self.names)))
        force = force[0]
        for bar in self.bars:
            self._add([bar.start, bar.end], *_bar_mass(bar, gravity), M, force)
        for point, mass in of_points.items():
            if point not in self._at:
                raise ValueError(f"mass of {point!r}: there is no such free point")
            self._add([point], mass * np.eye(2), mass * gravity, M, force)
        return M, force

    def _add(self, points, mass, weight, M, force):
        """Of fixed points nothing is left."""
        numbers = np.arange(len(self.names))
        places = [(k, numbers[self._at[p]]) for k, p in enumerate(points) if p in self._at]
        for a, rows in places:
            force[rows] += weight[2 * a : 2 * a + 2]
            for b, columns in places:
                M[np.ix_(rows, columns)] += mass[2 * a : 2 * a + 2, 2 * b : 2 * b + 2]


def _bar_mass(bar, gravity):
    """(4, 4) and (4,) over both ends: a place r of the bar moves with start + A(r) (end - start) / length."""
    length, mass = bar.length, bar.mass
    x, y = bar.com or (0.5 * length, 0.0)
    inertia = mass * length**2 / 12 if bar.inertia is None else bar.inertia
    A = (x * np.eye(2) + y * PERPENDICULAR) / length
    I2, O2 = np.eye(2), np.zeros((2, 2))
    spread = (inertia + mass * (x * x + y * y)) / length**2
    by_start_and_difference = np.block([[mass * I2, mass * A], [mass * A.T, spread * I2]])
    W = np.block([[I2, O2], [-I2, I2]])
    return W.T @ by_start_and_difference @ W, mass * (np.hstack([I2 - A, A]).T @ gravity)


class _Motion:
    """Rates and dynamics of coordinates that satisfy phi(q) = 0."""

    def __init__(self, plane, columns, rest, M, force):
        self._independent, self._dependent, self._M, self._force = list(columns), list(rest), M, force
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
        Q = self._M @ qdd - self._force
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
        right = tau + R.T @ (self._force - self._M @ Sc)
        return R @ solve_definite(symmetric(R.T @ self._M @ R), right[:, None])[:, 0] + Sc


# --- the paper's example ------------------------------------------------------------------------------------

FOUR_BAR_START = (1.0, 0.0, 1.0, 2.0, 0.0)  # x and y of P1 and P2, theta


def four_bar() -> System:
    """The paper's Fig. 6: crank A P1, coupler P1 P2, rocker P2 D; the crank's angle is independent."""
    return planar_system(
        "four_bar",
        {"A": (0.0, 0.0), "D": (4.0, 0.0), "P1": None, "P2": None},
        (
            Bar("A", "P1", 1.0, mass=1.0),
            Bar("P1", "P2", 2.0, mass=2.0),
            Bar("P2", "D", 13.0**0.5, mass=4.0),
            Angle("theta", "A", "P1"),
        ),
        independent=("theta",),
        gravity=(0.0, -9.8),
    )
