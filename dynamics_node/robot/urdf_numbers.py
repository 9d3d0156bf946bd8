"""Replaces numbers in the text of a URDF and keeps everything else."""

import re
from functools import partial
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import MOMENTS
from dynamics_node.robot.safe_xml import length_of_head, parse
from dynamics_node.robot.urdf import rotation_of
from dynamics_node.symbolic import transformed_inertia

FIGURES, ALL_FIGURES = 9, 17


class Inertial(NamedTuple):
    """Numbers of a link, in its axes: inertia (3, 3) kg m^2 about the center of mass; mass kg; com (3,) m.
    None keeps the present value."""

    inertia: np.ndarray
    mass: float | None = None
    com: np.ndarray | None = None


class Dynamics(NamedTuple):
    """Numbers of a joint: N m s/rad and N m, or N s/m and N."""

    damping: float
    friction: float


class _Tag(NamedTuple):
    """The start tag of an element: its byte range, path and attributes."""

    path: tuple[str, ...]  # of elements, with the names of links and joints
    start: int
    stop: int
    attributes: dict[str, str]


def with_numbers(
    text, links: dict[str, Inertial], joints: dict[str, Dynamics] | None = None, figures=FIGURES
) -> str:
    """The text with the numbers of the named links and joints, to `figures` digits.

    The axes of an <inertia> keep the <origin rpy> in the text. Missing elements, <origin> of an inertial and
    <dynamics> of a joint, are added. Raises ModelError for a link without <inertial> or a missing joint.
    """
    data = text.encode() if isinstance(text, str) else bytes(text)
    start = length_of_head(data)
    head, data = data[:start], data[start:]
    tags = {tag.path: tag for tag in _tags(data)}
    text_of = partial(_number_text, figures=figures)
    edits: list[tuple[int, int, str]] = []
    for name, inertial in links.items():
        edits += _inertial_edits(data, tags, name, inertial, text_of)
    for name, dynamics in (joints or {}).items():
        edits += _dynamics_edits(data, tags, name, dynamics, text_of)
    for start, stop, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[stop:]
    return (head + data).decode()


def _inertial_edits(data, tags, name, inertial, text_of):
    at = ("robot", f"link {name}", "inertial")
    parts = {tag: tags.get((*at, tag)) for tag in ("origin", "mass", "inertia")}
    if at not in tags or parts["mass"] is None or parts["inertia"] is None:
        raise ModelError(f"link {name!r} has no <inertial> with <mass> and <inertia> to change")
    origin = parts["origin"]
    R = rotation_of(origin.attributes if origin else {}, f"link {name!r}")
    moments = transformed_inertia(R, inertial.inertia)
    numbers = {key: text_of(moments[place]) for key, place in MOMENTS.items()}
    yield _edit(data, parts["inertia"], numbers)
    if inertial.mass is not None:
        yield _edit(data, parts["mass"], {"value": text_of(inertial.mass)})
    if inertial.com is None:
        return
    com = " ".join(text_of(x) for x in inertial.com)
    if origin:
        yield _edit(data, origin, {"xyz": com})
    elif np.any(inertial.com):
        stop = tags[at].stop
        yield stop, stop, f'<origin xyz="{com}" rpy="0 0 0"/>'


def _dynamics_edits(data, tags, name, dynamics, text_of):
    at = ("robot", f"joint {name}")
    if at not in tags:
        raise ModelError(f"there is no joint {name!r} in the text")
    numbers = {key: text_of(value) for key, value in dynamics._asdict().items()}
    tag = tags.get((*at, "dynamics"))
    if tag:
        yield _edit(data, tag, numbers)
    else:
        stop, attributes = tags[at].stop, " ".join(f'{key}="{value}"' for key, value in numbers.items())
        yield stop, stop, f"<dynamics {attributes}/>"


def _edit(data, tag, attributes):
    """The start tag with other values of attributes."""
    text = data[tag.start : tag.stop].decode()
    for name, value in attributes.items():
        pattern = re.compile(rf"(?<=\s)({name}\s*=\s*)(\"[^\"]*\"|'[^']*')")
        if pattern.search(text):
            text = pattern.sub(rf'\g<1>"{value}"', text, count=1)
        else:
            text = re.sub(r"\s*(/?>)$", rf' {name}="{value}"\1', text)
    return tag.start, tag.stop, text


def _tags(data):
    """The start tags of a document. Raises ModelError for malformed XML and for a DTD."""
    tags: list[_Tag] = []
    path: list[str] = []
    parser = expat.ParserCreate()

    def start(name, attributes):
        label = f" {attributes['name']}" if name in ("link", "joint") and "name" in attributes else ""
        path.append(name + label)
        begin = parser.CurrentByteIndex
        tags.append(_Tag(tuple(path), begin, _end_of_tag(data, begin), attributes))

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: path.pop()
    parse(parser, data)
    return tags


def _end_of_tag(data, begin):
    """The index after the > of a tag, outside quotes."""
    quote = None
    for k in range(begin, len(data)):
        byte = data[k : k + 1]
        if quote:
            quote = None if byte == quote else quote
        elif byte in (b'"', b"'"):
            quote = byte
        elif byte == b">":
            return k + 1
    return len(data)


def _number_text(x, figures):
    return f"{float(x):.{figures}g}"
