"""Shapes of links as solids: volume, center and second moments enclosed by their surfaces.

Boxes, cylinders, capsules and spheres need only NumPy and SciPy. The optional extra trimesh reads mesh files;
without it, meshes are skipped.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.optional import install_command


class Solid(NamedTuple):
    """volume: m^3; center (3,): m; second (3, 3): mean of (r - center)(r - center)^T, m^2, of uniform
    density; low, high (3,): bounding box, m. All in link axes.

    bounds (2, 3): low and high corner, m, of every shape, also of those that the solid leaves out; radius:
    m, no point of these is farther from the center."""

    volume: float | np.ndarray
    center: np.ndarray
    second: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bounds: np.ndarray
    radius: float | np.ndarray

    @property
    def diagonal(self):
        """Length of the diagonal of the bounding box, m."""
        return float(np.linalg.norm(self.high - self.low))

    def scaled(self, factor) -> "Solid":
        """The solid with lengths times a factor, about the link's origin."""
        powers = (3, 1, 2, 1, 1, 1, 1)
        return Solid(*(part * factor**power for part, power in zip(self, powers, strict=True)))

    def with_points(self, points) -> "Solid":
        """The solid whose bounds contain more points (n, 3)."""
        every = np.concatenate([self.bounds, points])
        away = np.linalg.norm(points - self.center, axis=1).max()
        bounds = np.array([every.min(axis=0), every.max(axis=0)])
        return self._replace(bounds=bounds, radius=max(self.radius, float(away)))


def enclosed(triangles) -> Solid:
    """Solid of triangles (n, 3, 3), all oriented outward: the sum of the tetrahedra to an interior point."""
    amid = triangles.reshape(-1, 3).mean(axis=0)
    corners = triangles - amid
    volumes = np.linalg.det(corners) / 6
    volume = volumes.sum()
    sums = corners.sum(axis=1)
    first = volumes @ sums / 4
    outer = np.einsum("nki,nkj->nij", corners, corners) + np.einsum("ni,nj->nij", sums, sums)
    second = np.einsum("n,nij->ij", volumes, outer) / 20
    center = first / volume
    points = triangles.reshape(-1, 3)
    spread = second / volume - np.outer(center, center)
    radius = float(np.linalg.norm(points - (amid + center), axis=1).max())
    low, high = points.min(axis=0), points.max(axis=0)
    return Solid(float(volume), amid + center, spread, low, high, np.array([low, high]), radius)


def joined(solids) -> Solid:
    """Several Solids as one; overlapping volumes count twice."""
    volumes = np.array([solid.volume for solid in solids])
    centers = np.array([solid.center for solid in solids])
    volume = volumes.sum()
    center = volumes @ centers / volume
    away = centers - center
    spread = sum(v * (s.second + np.outer(d, d)) for v, s, d in zip(volumes, solids, away, strict=True))
    low, high = np.min([s.low for s in solids], axis=0), np.max([s.high for s in solids], axis=0)
    bounds = np.array(
        [np.min([s.bounds[0] for s in solids], axis=0), np.max([s.bounds[1] for s in solids], axis=0)]
    )
    radius = max(s.radius + np.linalg.norm(d) for s, d in zip(solids, away, strict=True))
    return Solid(float(volume), center, spread / volume, low, high, bounds, float(radius))


def hull(points):
    """Triangles (n, 3, 3) of the convex hull of points (m, 3), oriented outward; flat sets get a thickness of
    a thousandth of their size."""
    from scipy.spatial import ConvexHull, QhullError  # takes 0.2 s to import

    points = np.unique(points, axis=0)
    try:
        convex = ConvexHull(points)
    except (QhullError, ValueError):
        size = max(float(np.ptp(points, axis=0).max()), 1e-6)
        corners = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
        points = (points[:, None] + 1e-3 * size * corners).reshape(-1, 3)
        convex = ConvexHull(points)
    triangles = points[convex.simplices]
    inside = np.linalg.det(triangles - points.mean(axis=0)) < 0
    triangles[inside] = triangles[inside][:, ::-1]
    return triangles


def box(size):
    """Surface (n, 3, 3) of a box (3,) about the origin."""
    return hull(0.5 * np.asarray(size) * np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T)


def cylinder(radius, length):
    """Surface of a cylinder along z."""
    return _revolved([(radius, -length / 2), (radius, length / 2)])


def capsule(radius, length):
    """Surface of a cylinder along z with a hemisphere at each end."""
    return _revolved([(r, h + z) for r, h in _arc(radius) for z in (-length / 2, length / 2)])


def sphere(radius):
    """Surface of a sphere."""
    return _revolved(_arc(radius))


def _arc(radius, rings=9):
    """(radius, height) of the rings of a sphere."""
    angles = np.pi * (np.arange(rings) / (rings - 1) - 0.5)
    return [(radius * np.cos(angle), radius * np.sin(angle)) for angle in angles]


def _revolved(rings, count=24):
    """Surface of the hull of rings (radius, height) about z."""
    angles = 2 * np.pi * np.arange(count) / count
    circle = np.stack([np.cos(angles), np.sin(angles), np.ones(count)], axis=1)
    return hull(np.concatenate([circle * (radius, radius, height) for radius, height in rings]))


MOST_BYTES = 256 * 1024 * 1024
KINDS = (".stl", ".obj", ".dae", ".ply", ".off")
READERS = ("trimesh", "pycollada", "lxml")


def _readers():
    return f"{install_command(*READERS)} for meshes"


class MeshError(InputError):
    """A mesh that cannot be read; the message gives the reason."""


def find_mesh(file, folder) -> Path:
    """Path of a mesh as named in a robot description in `folder`.

    package://NAME/... is searched in ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and in every parent folder of the
    description; file:// and plain paths are used as they are. Raises MeshError.
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
    raise MeshError(f"mesh {file!r} not found: set ROS_PACKAGE_PATH to the folder of its package")


def _bases(folder):
    ros = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
    ament = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    named = [Path(path) for path in ros if path] + [Path(path) / "share" for path in ament if path]
    return [*folder.parents, *named]


@lru_cache(maxsize=512)
def read_triangles(path: Path):
    """Corners (n, 3, 3) of the triangles of a file, converted to m if the file states its unit. Raises
    MeshError."""
    if path.suffix.lower() not in KINDS:
        raise MeshError(f"mesh {path.name!r} has none of the kinds {', '.join(KINDS)}")
    if path.stat().st_size > MOST_BYTES:
        raise MeshError(f"mesh {path.name!r} has more than {MOST_BYTES} bytes")
    try:
        import trimesh
    except ImportError:
        raise MeshError(f"meshes are skipped because trimesh is missing: {_readers()}") from None
    try:
        mesh: Any = trimesh.load(path, force="mesh", process=False, skip_materials=True)
        triangles = np.array(mesh.triangles, dtype=float).reshape(-1, 3, 3)
    except ImportError as error:
        raise MeshError(f"mesh {path.name!r} needs another reader ({error}): {_readers()}") from None
    except Exception as error:  # readers of many formats raise arbitrary exceptions
        raise MeshError(f"mesh {path.name!r} cannot be read: {type(error).__name__}: {error}") from None
    if not len(triangles) or not np.isfinite(triangles).all():
        raise MeshError(f"mesh {path.name!r} has no finite triangles")
    return triangles


_SURFACES: dict[str, Callable] = {
    "box": lambda *size: box(size), "cylinder": cylinder, "capsule": capsule, "sphere": sphere,
}  # fmt: skip


class Geometry(NamedTuple):
    """solid: of the hulls of the link's shapes, None if none is readable; surfaces: triangles (n, 3, 3) of
    each shape, m, link axes; files: of the meshes."""

    solid: Solid | None
    surfaces: tuple[np.ndarray, ...] = ()
    files: tuple[str, ...] = ()


NOTHING = Geometry(None)


def link_geometry(shapes, folder, left_out) -> Geometry:
    """Geometry of the shapes of a link whose description is in `folder`: the visual ones, else the collision
    shapes. The bounds of the solid contain both. left_out: a list to which a line is appended for every
    unreadable mesh."""
    visual, collision = (
        [part for shape in shapes if shape.visual is kind and (part := _part(shape, folder, left_out))]
        for kind in (True, False)
    )
    parts = visual or collision
    if not parts:
        return NOTHING
    hulls, surfaces, files = zip(*parts, strict=True)
    points = np.concatenate([outer.reshape(-1, 3) for outer, _, _ in (*visual, *collision)])
    return Geometry(joined([enclosed(triangles) for triangles in hulls]).with_points(points), surfaces, files)


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
    if np.prod(scale) < 0:  # a reflection turns surfaces inside out
        outer = outer[:, ::-1]
    return outer, placed(surface), shape.file


@lru_cache(maxsize=512)
def _mesh_hull(path):
    return hull(read_triangles(path).reshape(-1, 3))
