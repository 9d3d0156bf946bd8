"""What a robot description says of how its links look: shapes, not yet read from their files."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Shape:
    """A box (size: x, y, z), cylinder or capsule (radius, length along z), sphere (radius): m; or a mesh
    (size: scales along its axes), whose `file` is named as written. rotation (3, 3), origin (3,): place it in
    link axes. visual: drawn; else for collisions."""

    kind: str
    size: tuple[float, ...]
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    file: str = ""
    visual: bool = True
