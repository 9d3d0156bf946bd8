"""URDF text -> shapes of its links; mesh files are not read yet. An unreadable shape is left out, with a
reason: dynamics does not need it.
"""

from dataclasses import dataclass, field

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot.urdf import read_xml
from dynamics_node.symbolic import rpy_rotation
from dynamics_node.text import number


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


_SIZES = {
    "box": ("size",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "sphere": ("radius",),
}
_COUNTS = {"box": 3, "cylinder": 2, "capsule": 2, "sphere": 1}


def parse_shapes(text):
    """{link: tuple of Shape} of URDF text, and a tuple of omitted shapes with reasons. Raises ModelError as
    in `parse_urdf`."""
    shapes: dict[str, list[Shape]] = {}
    left_out = []
    for link in read_xml(text).iterfind("link"):
        name = link.get("name")
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
    turn, place = (_numbers(origin, key, (0.0, 0.0, 0.0)) for key in ("rpy", "xyz"))
    pose = {"rotation": rpy_rotation(turn), "origin": place, "visual": visual}
    for child in geometry if geometry is not None else ():
        if child.tag == "mesh":
            if not child.get("filename"):
                raise InputError("a mesh without filename")
            scale = tuple(_numbers(child, "scale", (1.0, 1.0, 1.0)))
            return Shape("mesh", scale, file=child.get("filename"), **pose)
        if child.tag in _SIZES:
            size = tuple(x for key in _SIZES[child.tag] for x in _numbers(child, key, ()))
            if len(size) != _COUNTS[child.tag] or not min(size) > 0:
                raise InputError(f"a {child.tag} needs {' and '.join(_SIZES[child.tag])} above 0")
            return Shape(child.tag, size, **pose)
    raise InputError("unknown shape")


def _numbers(element, key, default):
    text = None if element is None else element.get(key)
    if text is None:
        return np.array(default)
    numbers = np.array([number(word) for word in text.split()])
    if not np.isfinite(numbers).all() or (len(default) and len(numbers) != len(default)):
        raise InputError(f"{key} {text!r} are not {len(default)} finite numbers")
    return numbers
