"""The text of a file -> Description: the root element chooses the reader."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import Description
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.urdf import read_urdf

READERS: dict[str, Callable[[Element], Description]] = {"robot": read_urdf}


def read_description(text: str | bytes) -> Description:
    """The Description, not yet validated. Raises ModelError for over-sized, malformed or hostile XML, and,
    naming it, for an element that cannot be read."""
    root = elements(text)
    if root.tag not in READERS:
        known = " or ".join(f"<{tag}>" for tag in READERS)
        raise ModelError(f"robot description starts with <{root.tag}>, not {known}")
    digest = hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
    return replace(READERS[root.tag](root), digest=digest)
