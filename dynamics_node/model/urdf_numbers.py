"""URDF text with other numbers in some of its <inertial>: nothing else of the text changes, not a blank."""

import re
from xml.parsers import expat

import numpy as np

from dynamics_node.model.errors import ModelError
from dynamics_node.model.urdf import inertial_rotations, parse_urdf

_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
_ATTRIBUTE = re.compile(rb"""([^\s=<>"']+)\s*=\s*("[^"]*"|'[^']*')""")


def with_inertias(text: bytes, inertias) -> bytes:
    """inertias: {link: (3, 3) kg m^2 about its centre of mass, in link axes}. They are written in the axes of
    the text's own <inertial><origin rpy>. Raises ModelError for what `parse_urdf` refuses, and where a link
    has no <inertia> with all six numbers."""
    known = {link.name: link for link in parse_urdf(text).links}  # and the text is known to be harmless
    wanted = {name: inertia for name, inertia in inertias.items() if name in known}
    turns = inertial_rotations(text)
    edits = []
    for name, place in _places(text, set(wanted)).items():
        turn = turns[name]
        inertia = turn.T @ wanted.pop(name) @ turn
        edits += _edits(text, place, dict(zip(_MOMENTS, inertia[np.triu_indices(3)], strict=True)), name)
    if wanted:
        raise ModelError(f"link {next(iter(wanted))!r} has no <inertia> to write to")
    for start, end, number in sorted(edits, reverse=True):
        text = text[:start] + number + text[end:]
    return text


def _places(text, names):
    """{link: offset in bytes of its first <inertia>}."""
    parser = expat.ParserCreate()
    path: list[tuple] = []
    places: dict[str, int] = {}

    def start(tag, attributes):
        path.append((tag, attributes.get("name")))
        if [own for own, _ in path] == ["robot", "link", "inertial", "inertia"] and path[1][1] in names:
            places.setdefault(path[1][1], parser.CurrentByteIndex)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: path.pop()
    parser.Parse(text, True)
    return places


def _edits(text, place, numbers, name):
    """(start, end, new bytes) of the attributes of the element at `place`."""
    if text[place : place + 1] != b"<":
        raise ModelError("robot description is not written in an encoding that can be edited; use UTF-8")
    found, at = {}, place
    while attribute := _ATTRIBUTE.search(text, at):
        if b">" in text[at : attribute.start()]:
            break
        found[attribute[1].decode()] = attribute.span(2)
        at = attribute.end()
    if missing := [key for key in numbers if key not in found]:
        raise ModelError(f"link {name!r}: <inertia> has no {', '.join(missing)}")
    return [(found[key][0] + 1, found[key][1] - 1, repr(float(x)).encode()) for key, x in numbers.items()]
