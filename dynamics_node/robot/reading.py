"""A file, or its text -> Description: the root element chooses the reader."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import Description
from dynamics_node.robot.mjcf import read_mjcf
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.urdf import read_urdf

READERS: dict[str, Callable[[Element], Description]] = {"robot": read_urdf}
MJCF = "mujoco"


def read_description(text: str | bytes) -> Description:
    """The Description, not yet validated. Raises ModelError for over-sized, malformed or hostile XML, and,
    naming it, for an element that cannot be read."""
    return _read(elements(text), text)


def read_file(path: str | Path) -> Description:
    """The Description of a file in URDF or MJCF, not yet validated. Raises as `read_description` and
    `read_mjcf`."""
    text = Path(path).read_bytes()
    root = elements(text)
    return replace(read_mjcf(path), digest=_digest(text)) if root.tag == MJCF else _read(root, text)


def _read(root, text):
    if root.tag == MJCF:
        raise ModelError("MJCF is read from a file, since it includes others: use dn.load_robot(path)")
    if root.tag not in READERS:
        known = " or ".join(f"<{tag}>" for tag in READERS)
        raise ModelError(f"robot description starts with <{root.tag}>, not {known}")
    return replace(READERS[root.tag](root), digest=_digest(text))


def _digest(text):
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
