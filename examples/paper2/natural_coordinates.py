"""Planar mechanisms of points, bars, sliders and angles in natural coordinates (paper 2).

A bar needs no angle: its motion is that of two of its points and linear in their coordinates, so the mass
matrix is constant (paper 2, Appendix III; Garcia de Jalon and Bayo, Kinematic and Dynamic Simulation of
Multibody Systems, sec. 4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from paper_problems import PlanarSystem

from dynamics_node.algorithms.constraint_elimination import ConstraintElimination
from dynamics_node.symbolic import derivative_name, interpret, jacobian, solve_definite, symmetric, trace
from dynamics_node.trajectory import Drawing, vector

PERPENDICULAR = np.array([[0.0, -1.0], [1.0, 0.0]])


@dataclass(frozen=True)
class Bar:
    """Two points at a constant distance, m. com (2,): center of its mass (kg) in the frame at `start` whose x
    axis points to `end`, default the middle; inertia: about com, kg m^2, default that of a thin rod."""

    start: str
    end: str
    length: float
    mass: float = 0.0
    com: tuple[float, float] | None = None
    inertia: float | None = None


@dataclass(frozen=True)
class Slider:
    """A point on the line through two others: fixed ones, or the ends of a bar."""

    point: str
    start: str
    end: str


@dataclass(frozen=True)
class Angle:
    """A coordinate, rad: from the x axis to the bar from `start` to `end`.

    Its equation (y_j - y_i) cos(theta) = (x_j - x_i) sin(theta) is regular at every angle. The paper switches
    between two equations, but a Program has no branches. It also holds half a turn away, which `turned` of
    the PlanarSystem detects.
    """

    name: str
    start: str
    end: str


Block = Bar | Slider | Angle


def planar_system(
    name,
    points: dict[str, tuple[float, float] | None],
    blocks: Sequence[Block],
    independent: Sequence[str],
    masses=None,
    gravity=(0.0, -9.81),
) -> PlanarSystem:
    """points: {name: fixed place, m, or None: free}; blocks: Bars, Sliders and Angles; independent: names of
    the independent coordinates, among `x POINT`, `y POINT` and angles; masses: {free point: kg}.

    q: x and y of every free point, then the angles. Raises ValueError for unknown names, and unless there are
    as many equations as dependent coordinates.
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
    return PlanarSystem(
        name=name,
        q=vector("q", plane.names, "qd"),
        q_names=plane.names,
        units=plane.units(columns),
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
        return ConstraintElimination(A, np.ones(len(A))), K[:, self._independent]

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


def planar_drawing(points, blocks, q) -> Drawing:
    """The points and Bars of `planar_system` at q (count, nq), including the lines of sliders."""
    free = [name for name, place in points.items() if place is None]
    numbers = {name: k for k, name in enumerate(points)}
    places = np.zeros((len(q), len(points), 3))
    for name, place in points.items():
        at = 2 * free.index(name) if place is None else 0
        places[:, numbers[name], :2] = q[:, at : at + 2] if place is None else place
    lines = dict.fromkeys((block.start, block.end) for block in blocks if not isinstance(block, Angle))
    bars = tuple((numbers[start], numbers[end], k) for k, (start, end) in enumerate(lines))
    names = tuple((k, name) for name, k in numbers.items())
    return Drawing(places, bars, names, tuple(numbers[name] for name in free), planar=True)


class Plane:
    """Points {name: fixed place, m, or None: free} and the equations of blocks between them.

    names (n,): of the coordinates q, x and y of every free point, then the angles. Raises ValueError for
    unknown points and bars.
    """

    def __init__(self, points, blocks):
        self.points, self.blocks = points, blocks
        self.bars = [block for block in blocks if isinstance(block, Bar)]
        self.angles = [block for block in blocks if isinstance(block, Angle)]
        free = [point for point, place in points.items() if place is None]
        self.names = (*(f"{x} {p}" for p in free for x in "xy"), *(angle.name for angle in self.angles))
        self._at = {point: slice(2 * k, 2 * k + 2) for k, point in enumerate(free)}
        self._lengths = {block: self._length(block) for block in blocks}

    def units(self, columns):
        """{kind: unit of every coordinate}; columns: the independent ones."""
        positions = ("m",) * (len(self.names) - len(self.angles)) + ("rad",) * len(self.angles)
        own = [positions[k] for k in columns]
        rates = {kind: tuple(f"{unit}/{s}" for unit in own) for kind, s in (("qd", "s"), ("qdd", "s²"))}
        return {"q": positions, **rates, "tau": tuple("N" if unit == "m" else "N m" for unit in own)}

    def equations(self, q):
        """phi (blocks,), in m."""
        return np.array([self._equation(q, block) for block in self.blocks], dtype=object)

    def turned(self, q):
        """1 minus the cosine between every angle and its bar."""
        cosines = [self._along(q, angle) * (1.0 / self._lengths[angle]) for angle in self.angles]
        return np.array([1.0 - cosine for cosine in cosines], dtype=object)

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

    def _angle(self, q, angle):
        return q[self.names.index(angle.name)]

    def _place(self, q, point):
        fixed = self.points[point]
        return q[self._at[point]] if fixed is None else np.array(fixed, dtype=float)

    def _length(self, block):
        """Length of the bar or fixed line of a block."""
        for point in (block.start, block.end, getattr(block, "point", block.start)):
            if point not in self.points:
                raise ValueError(f"{block}: there is no point {point!r}")
        of_bars = [bar.length for bar in self.bars if {bar.start, bar.end} == {block.start, block.end}]
        if of_bars:
            return of_bars[0]
        start, end = self.points[block.start], self.points[block.end]
        if start is None or end is None:
            raise ValueError(f"{block}: there is no bar from {block.start!r} to {block.end!r}")
        return float(np.hypot(*np.subtract(end, start)))

    def masses(self, of_points, gravity):
        """M (n, n), kg, and the weight (n,), N; of_points: {free point: kg}; gravity (2,)."""
        n = len(self.names)
        M, weight = np.zeros((n, n)), np.zeros(n)
        for bar in self.bars:
            own, pull = _bar_mass(bar, gravity)
            self._add([bar.start, bar.end], own, pull, M, weight)
        for point, mass in of_points.items():
            if point not in self._at:
                raise ValueError(f"mass of {point!r}: there is no such free point")
            self._add([point], mass * np.eye(2), mass * gravity, M, weight)
        return M, weight

    def _add(self, points, block, pull, M, weight):
        """Add in place; contributions to fixed points are dropped."""
        numbers = np.arange(len(self.names))
        places = [(2 * k, numbers[self._at[p]]) for k, p in enumerate(points) if p in self._at]
        for a, rows in places:
            weight[rows] += pull[a : a + 2]
            for b, columns in places:
                M[np.ix_(rows, columns)] += block[a : a + 2, b : b + 2]


def _bar_mass(bar, gravity):
    """(4, 4) and (4,) over both ends: a point r of the bar moves with start + A(r) (end - start)."""
    length, mass = bar.length, bar.mass
    x, y = bar.com or (0.5 * length, 0.0)
    inertia = mass * length**2 / 12 if bar.inertia is None else bar.inertia
    A = (x * np.eye(2) + y * PERPENDICULAR) / length
    about_start = (inertia + mass * (x * x + y * y)) / length**2
    of_start_and_difference = np.block([[mass * np.eye(2), mass * A], [mass * A.T, about_start * np.eye(2)]])
    W = np.block([[np.eye(2), np.zeros((2, 2))], [-np.eye(2), np.eye(2)]])
    return W.T @ of_start_and_difference @ W, mass * (np.hstack([np.eye(2) - A, A]).T @ gravity)
