"""The look of a link as numbers: triangles to draw, and the solid that they are hulls of."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.doctor.meshes import MeshError, find_mesh, read_triangles
from dynamics_node.identification.doctor.solids import (
    Solid,
    box,
    capsule,
    cylinder,
    enclosed,
    hull,
    joined,
    sphere,
)

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
