"""Files of meshes -> triangles. trimesh reads them (an optional extra); without it meshes are left out."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

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
