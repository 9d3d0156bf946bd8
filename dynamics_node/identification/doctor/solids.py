"""Shapes of links as solids: volume, center and second moments of what their closed surfaces enclose.

Boxes, cylinders, capsules and spheres need NumPy and SciPy alone. trimesh, an optional extra, reads the files
of meshes; without it meshes are left out.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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


MOST_BYTES = 256 * 1024 * 1024
KINDS = (".stl", ".obj", ".dae", ".ply", ".off")
HELP = "pip install dynamics_node[doctor] for meshes"


class MeshError(ValueError):
    """A mesh that cannot be had; the message says why."""


def find_mesh(file, folder) -> Path:
    """The path of a mesh as a robot description names it, which lies in `folder`.

    package://NAME/... is looked for where ROS looks (ROS_PACKAGE_PATH, AMENT_PREFIX_PATH) and in every folder
    above the description; file:// and plain paths as they are. Raises MeshError.
    """
    plain = file.removeprefix("file://")
    folder = Path(folder).absolute()
    if file.startswith("package:"):
        parts = [part for part in file.removeprefix("package:").split("/") if part]
        tried = [base.joinpath(*parts) for base in _bases(folder)]
        tried += [above.joinpath(*parts[1:]) for above in (folder, *folder.parents)]
    else:
        tried = [folder / plain]  # an absolute path replaces the folder
    for path in tried:
        if path.is_file():
            return path
    raise MeshError(f"mesh {file!r} is not found (set ROS_PACKAGE_PATH to where its package lies)")


def _bases(folder):
    ros = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
    ament = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    named = [Path(path) for path in ros if path] + [Path(path) / "share" for path in ament if path]
    return [*folder.parents, *named]


@lru_cache(maxsize=512)
def read_triangles(path: Path):
    """(n, 3, 3): corners of the triangles of a file, in its units made m where it says which it has. Raises
    MeshError."""
    if path.suffix.lower() not in KINDS:
        raise MeshError(f"mesh {path.name!r} is of none of the kinds {', '.join(KINDS)}")
    if path.stat().st_size > MOST_BYTES:
        raise MeshError(f"mesh {path.name!r} has more than {MOST_BYTES} bytes")
    try:
        import trimesh
    except ImportError:
        raise MeshError(f"meshes are left out, trimesh is absent: {HELP}") from None
    try:
        mesh: Any = trimesh.load(path, force="mesh", process=False, skip_materials=True)
        triangles = np.array(mesh.triangles, dtype=float).reshape(-1, 3, 3)
    except ImportError as error:
        raise MeshError(f"mesh {path.name!r} needs another reader ({error}): {HELP}") from None
    except Exception as error:  # readers of many formats raise what they like
        raise MeshError(f"mesh {path.name!r} cannot be read: {type(error).__name__}: {error}") from None
    if not len(triangles) or not np.isfinite(triangles).all():
        raise MeshError(f"mesh {path.name!r} has no finite triangles")
    return triangles


_SURFACES: dict[str, Callable] = {
    "box": lambda *size: box(size),
    "cylinder": cylinder,
    "capsule": capsule,
    "sphere": sphere,
}


class Geometry(NamedTuple):
    """solid: of the hulls of the link's shapes, None where it has none that can be read; shapes: what they
    are, one of each; surfaces: triangles (n, 3, 3) of each, m, link axes; files: of the meshes."""

    solid: Solid | None
    surfaces: tuple[np.ndarray, ...] = ()
    files: tuple[str, ...] = ()


NOTHING = Geometry(None)


def link_geometry(shapes, folder, left_out) -> Geometry:
    """Of the shapes of a link, whose description lies in `folder`: those that are drawn, else those for
    collisions. left_out: a list that gets a line for every mesh that cannot be read."""
    for visual in (True, False):
        found = [
            part for shape in shapes if shape.visual is visual and (part := _part(shape, folder, left_out))
        ]
        if found:
            hulls, surfaces, files = zip(*found, strict=True)
            return Geometry(joined([enclosed(triangles) for triangles in hulls]), surfaces, files)
    return NOTHING


def _part(shape, folder, left_out):
    try:
        if shape.kind == "mesh":
            path = find_mesh(shape.file, folder)
            outer, surface = _mesh_hull(path), read_triangles(path)
        else:
            outer = surface = _SURFACES[shape.kind](*shape.size)
    except (MeshError, OSError) as error:
        left_out.append(str(error))
        return None
    scale = np.array(shape.size) if shape.kind == "mesh" else np.ones(3)
    if np.prod(scale) == 0:
        left_out.append(f"mesh {shape.file!r} has scale 0")
        return None

    def placed(triangles):
        return (triangles * scale) @ shape.rotation.T + shape.origin

    outer = placed(outer)
    if np.prod(scale) < 0:  # a mirror turns surfaces inside out
        outer = outer[:, ::-1]
    return outer, placed(surface), shape.file


@lru_cache(maxsize=512)
def _mesh_hull(path):
    return hull(read_triangles(path).reshape(-1, 3))
