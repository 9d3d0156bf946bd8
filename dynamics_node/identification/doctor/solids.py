"""Volume, centre and second moments of what closed surfaces enclose."""

from typing import NamedTuple

import numpy as np


class Solid(NamedTuple):
    """volume: m^3; centre (3,): m; second (3, 3): mean of (r - centre)(r - centre)^T, m^2, of uniform
    density; low, high (3,): bounding box, m. All in link axes."""

    volume: float | np.ndarray
    centre: np.ndarray
    second: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def diagonal(self):
        """Length of the diagonal of the bounding box, m."""
        return float(np.linalg.norm(self.high - self.low))


def enclosed(triangles) -> Solid:
    """Of triangles (n, 3, 3), all turned outwards: the sum of the tetrahedra to a point amid them."""
    amid = triangles.reshape(-1, 3).mean(axis=0)
    corners = triangles - amid
    volumes = np.linalg.det(corners) / 6
    volume = volumes.sum()
    sums = corners.sum(axis=1)
    first = volumes @ sums / 4
    outer = np.einsum("nki,nkj->nij", corners, corners) + np.einsum("ni,nj->nij", sums, sums)
    second = np.einsum("n,nij->ij", volumes, outer) / 20
    centre = first / volume
    points = triangles.reshape(-1, 3)
    spread = second / volume - np.outer(centre, centre)
    return Solid(float(volume), amid + centre, spread, points.min(axis=0), points.max(axis=0))


def joined(solids) -> Solid:
    """Several as one; what two of them share counts twice."""
    volumes = np.array([solid.volume for solid in solids])
    centres = np.array([solid.centre for solid in solids])
    volume = volumes.sum()
    centre = volumes @ centres / volume
    away = centres - centre
    spread = sum(v * (s.second + np.outer(d, d)) for v, s, d in zip(volumes, solids, away, strict=True))
    low, high = np.min([s.low for s in solids], axis=0), np.max([s.high for s in solids], axis=0)
    return Solid(float(volume), centre, spread / volume, low, high)


def hull(points):
    """(n, 3, 3): triangles of the convex hull of points (m, 3), turned outwards; what is flat gets a
    thickness of a thousandth of its size."""
    from scipy.spatial import ConvexHull, QhullError  # 0.2 s, for those who have meshes

    points = np.unique(points, axis=0)
    try:
        found = ConvexHull(points)
    except (QhullError, ValueError):
        size = max(float(np.ptp(points, axis=0).max()), 1e-6)
        corners = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
        points = (points[:, None] + 1e-3 * size * corners).reshape(-1, 3)
        found = ConvexHull(points)
    triangles = points[found.simplices]
    inside = np.linalg.det(triangles - points.mean(axis=0)) < 0
    triangles[inside] = triangles[inside][:, ::-1]
    return triangles


def box(size):
    """(n, 3, 3): surface of a box (3,) about the origin."""
    return hull(0.5 * np.asarray(size) * np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T)


def cylinder(radius, length):
    """... of a cylinder along z."""
    return hull(np.concatenate([_ring(radius, -length / 2), _ring(radius, length / 2)]))


def capsule(radius, length):
    """... of a cylinder along z with half a ball at each end."""
    return hull(np.concatenate([_ball(radius) + np.array([0, 0, z]) for z in (-length / 2, length / 2)]))


def sphere(radius):
    """... of a ball."""
    return hull(_ball(radius))


def _ring(radius, height, count=24):
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(count, height)], axis=1)


def _ball(radius, rings=9):
    angles = np.pi * (np.arange(rings) / (rings - 1) - 0.5)
    return np.concatenate([_ring(radius * np.cos(a), radius * np.sin(a)) for a in angles])
