"""A file, or its text -> Description: the root element chooses the reader."""

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import Description
from dynamics_node.robot.mjcf import read_mjcf
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.urdf import read_urdf
from dynamics_node.text import one_line

READERS: dict[str, Callable[[Element], Description]] = {"robot": read_urdf}
MJCF = "mujoco"


def read_description(text: str | bytes) -> Description:
    """The Description, not yet validated. Raises ModelError for over-sized, malformed or hostile XML, and,
    naming it, for an element that cannot be read."""
    return _read(elements(text), text)


def read_file(path: str | Path, xacro_arguments: Mapping[str, str] | None = None) -> Description:
    """The Description of a file in URDF, xacro or MJCF, not yet validated. Raises as `read_description` and
    `read_mjcf`, and ImportError without what the format needs."""
    path = Path(path).expanduser()
    text: str | bytes = path.read_bytes()
    if path.suffix == ".xacro":
        text = expanded(path, xacro_arguments or {})
    elif xacro_arguments:
        raise ModelError(f"{path}: arguments of xacro are for files that end in .xacro")
    root = elements(text)
    return replace(read_mjcf(path), digest=_digest(text)) if root.tag == MJCF else _read(root, text)


def _read(root, text):
    if root.tag == MJCF:
        raise ModelError("MJCF is read from a file, since it includes others: use dn.load_robot(path)")
    if root.tag not in READERS:
        remedy = "convert it first" if root.tag == "sdf" else "a URDF starts with <robot>, MJCF with <mujoco>"
        page = "see docs/how-to/bring_your_robot.md"
        raise ModelError(f"robot description starts with <{one_line(root.tag, 40)}>: {remedy}, {page}")
    return replace(READERS[root.tag](root), digest=_digest(text))


def _digest(text):
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def expanded(path: str | Path, arguments: Mapping[str, str]) -> str:
    """The text of a xacro file with its macros and expressions expanded. Raises ModelError, ImportError."""
    try:
        import xacro
    except ImportError:
        raise ImportError(f"{path}: to expand it, install xacro: pip install xacro") from None
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it prints what its errors say
            return xacro.process_file(str(path), mappings=dict(arguments)).toxml()
    except Exception as error:  # expressions of the file raise anything
        reason = one_line(" ".join(str(error).split()) or type(error).__name__, 300)
        raise ModelError(f"{path}: xacro cannot expand it: {reason}") from None
