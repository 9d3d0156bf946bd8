"""URDF text -> shapes of its links; mesh files are not read yet. An unreadable shape is left out, with a
reason: dynamics does not need it.
"""

from dataclasses import dataclass, field

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.urdf import numbers, pose_of


@dataclass(frozen=True, eq=False)
class Shape:
    """A box (size: x, y, z), cylinder or capsule (radius, length along z), sphere (radius), in m; or a mesh
    (size: scales along its axes) with `file` as written. rotation (3, 3), origin (3,): pose in link axes.
    visual: drawn; else for collisions."""

    kind: str
    size: tuple[float, ...]
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    file: str = ""
    visual: bool = True


_SIZES = {  # attributes, and the count of their numbers
    "box": (("size",), 3),
    "cylinder": (("radius", "length"), 2),
    "capsule": (("radius", "length"), 2),
    "sphere": (("radius",), 1),
}


def parse_shapes(text):
    """{link: tuple of Shape} of URDF text, and a tuple of omitted shapes with reasons. Raises ModelError as
    in `read_description`."""
    shapes: dict[str, list[Shape]] = {}
    left_out = []
    for link in elements(text).iterfind("link"):
        name = link.get("name") or ""
        link_shapes = shapes.setdefault(name, [])
        for tag in ("visual", "collision"):
            for element in link.iterfind(tag):
                try:
                    link_shapes.append(_shape(element, tag == "visual"))
                except ValueError as error:
                    left_out.append(f"link {name!r}: <{tag}> is left out: {error}")
    return {name: tuple(link_shapes) for name, link_shapes in shapes.items()}, tuple(left_out)


def _shape(element, visual):
    origin, geometry = element.find("origin"), element.find("geometry")
    rotation, place = pose_of(origin, "its pose")
    _finite(place)
    pose = {"rotation": rotation, "origin": place, "visual": visual}
    for child in geometry if geometry is not None else ():
        if child.tag == "mesh":
            if not child.get("filename"):
                raise InputError("a mesh without filename")
            scale = numbers(child.get("scale") or "1 1 1", "scale", 3)
            return Shape("mesh", _finite(scale), file=child.get("filename"), **pose)
        if child.tag in _SIZES:
            keys, count = _SIZES[child.tag]
            size = numbers(" ".join(child.get(key) or "" for key in keys), child.tag, count)
            if not min(size) > 0:
                raise InputError(f"a {child.tag} needs {' and '.join(keys)} above 0")
            return Shape(child.tag, _finite(size), **pose)
    raise InputError("unknown shape")


def _finite(values):
    if not np.isfinite(values).all():
        raise InputError("its numbers are not finite")
    return tuple(values)
