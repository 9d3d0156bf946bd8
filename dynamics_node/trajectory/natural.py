"""Natural coordinates of planar mechanisms: the blocks, their equations and masses (paper 2, Appendix III).

A bar needs no angle: its motion is that of two of its points, linear in their coordinates, so the mass matrix
is constant (Garcia de Jalon and Bayo, Kinematic and Dynamic Simulation of Multibody Systems, sec. 4.2).
"""

from dataclasses import dataclass

import numpy as np

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
    """A point on the line through two others: fixed ones, or the ends of a bar."""

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


Block = Bar | Slider | Angle


class Plane:
    """Points {name: where it is fixed, m, or None: free} and the equations of blocks between them.

    names (n,): of the coordinates q, x and y of every free point, then the angles. Raises ValueError, by
    name, for points and bars that are not there.
    """

    def __init__(self, points, blocks):
        self.points, self.blocks = points, blocks
        self.bars = [block for block in blocks if isinstance(block, Bar)]
        self.angles = [block for block in blocks if isinstance(block, Angle)]
        free = [point for point, place in points.items() if place is None]
        self.names = (*(f"{x} {p}" for p in free for x in "xy"), *(angle.name for angle in self.angles))
        self._at = {point: slice(2 * k, 2 * k + 2) for k, point in enumerate(free)}
        self._lengths = {block: self._length(block) for block in blocks}

    def equations(self, q):
        """phi (blocks,), in m."""
        return np.array([self._equation(q, block) for block in self.blocks], dtype=object)

    def turned(self, q):
        """1 less the cosine between every angle and its bar."""
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
        """Of the bar or the fixed line that a block is about."""
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

    def _add(self, points, own, pull, M, weight):
        """In place; of what acts on fixed points nothing is left."""
        numbers = np.arange(len(self.names))
        places = [(2 * k, numbers[self._at[p]]) for k, p in enumerate(points) if p in self._at]
        for a, rows in places:
            weight[rows] += pull[a : a + 2]
            for b, columns in places:
                M[np.ix_(rows, columns)] += own[a : a + 2, b : b + 2]


def _bar_mass(bar, gravity):
    """(4, 4) and (4,) over both ends: a place r of the bar moves with start + A(r) (end - start)."""
    length, mass = bar.length, bar.mass
    x, y = bar.com or (0.5 * length, 0.0)
    inertia = mass * length**2 / 12 if bar.inertia is None else bar.inertia
    A = (x * np.eye(2) + y * PERPENDICULAR) / length
    about_start = (inertia + mass * (x * x + y * y)) / length**2
    of_start_and_difference = np.block([[mass * np.eye(2), mass * A], [mass * A.T, about_start * np.eye(2)]])
    W = np.block([[np.eye(2), np.zeros((2, 2))], [-np.eye(2), np.eye(2)]])
    return W.T @ of_start_and_difference @ W, mass * (np.hstack([np.eye(2) - A, A]).T @ gravity)
