"""The files that a model in MJCF names. MuJoCo opens any of them; here those of the model's folder pass.

A model may come from elsewhere, as a folder. Links that lead out of the folder do not pass, and neither do
elements that read other models or geometry while MuJoCo parses them. So reading a model opens no other file,
and makes a bounded number of bodies.
"""

from pathlib import Path
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.safe_files import file_trouble, read_regular_file
from dynamics_node.robot.safe_xml import MAX_BYTES, elements
from dynamics_node.text import one_line

MOST_FILES = 200  # that a model includes
MOST_COPIES = 5000  # of a body by <replicate>, <composite> and <flexcomp>
LARGEST = 256 * 1024 * 1024  # bytes of a mesh
_LATER = ("mesh", "hfield", "texture", "skin")  # not opened before the model is compiled


def require_contained_files(path: str | Path, folder: str | Path | None = None) -> None:
    """Raise ModelError if MuJoCo's parser would open a file outside the folder, by default that of the model
    at `path`, or make more than MOST_COPIES copies of a body; OSError if the model cannot be read."""
    waiting, checked = [Path(path)], 0
    while waiting:
        file = waiting.pop()
        checked += 1
        if checked > MOST_FILES:
            raise ModelError(f"{path}: it includes more than {MOST_FILES} files")
        text = read_regular_file(file, MAX_BYTES + 1)
        _require_utf8(file, text)
        for element in _elements_of(file, text).iter():
            if element.tag == "include":
                name = element.get("file") or ""  # in the folder of the model, or in that of the file
                places = Path(path).parent / name, file.parent / name
                waiting.append(contained_file(path, folder, "the included file", *places))
            elif element.tag not in _LATER and (keys := _files(element)):
                raise ModelError(
                    f"{file}: {keys[0]} of <{one_line(element.tag, 40)}> is not read: save the whole model "
                    "with MuJoCo (MjSpec.to_xml) first"
                )


def contained_file(path: str | Path, folder: str | Path | None, what: str, *places: Path) -> Path:
    """The first of these files that is there. Raises ModelError if none is there, if it is too long, or
    outside the folder, by default that of the model at `path`."""
    try:
        file = next((place for place in places if place.is_file()), places[0]).resolve()
        if not any(file.is_relative_to(own) for own in _folders(path, folder)):
            reason = "is outside the folder of the model: put it there, or give a trusted_folder"
        elif not file.is_file():
            reason = "is not there"
        else:
            size = file.stat().st_size
            reason = f"has {size} bytes; the limit is {LARGEST}" if size > LARGEST else ""
    except (OSError, ValueError, RuntimeError) as error:  # NUL bytes, long names, circles of links
        reason = file_trouble(error) if isinstance(error, OSError) else str(error)
    if reason:
        raise ModelError(f"{path}: {what} {one_line(places[0], 200)!r} {one_line(reason, 200)}")
    return file


def _folders(path, folder):
    """The folder; by default that of the model. If the model is a link, as in an installation by links, also
    that of its target."""
    if folder is not None:
        return (Path(folder).resolve(),)
    return Path(path).parent.resolve(), Path(path).resolve().parent


def _elements_of(file, text) -> Element:
    try:
        root = elements(text)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None
    _require_few(file, root)
    return root


def _require_utf8(file, text):
    """MuJoCo knows no other encoding: it would read other elements than this module."""
    declaration = text.lstrip()[:200].lower().partition(b"?>")[0]
    if b"encoding" in declaration and not any(name in declaration for name in (b"utf-8", b"us-ascii")):
        raise ModelError(f"{file}: its encoding is not UTF-8")
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ModelError(f"{file}: its encoding is not UTF-8") from None


def _files(element):
    return [key for key in element.attrib if key.startswith("file")]


def _require_few(file, root):
    waiting = [(root, 1)]
    while waiting:
        element, copies = waiting.pop()
        if element.tag in ("replicate", "composite", "flexcomp"):
            for word in (element.get("count") or "1").split():
                copies *= max(1, int(float(word))) if _is_count(word) else MOST_COPIES + 1
            if copies > MOST_COPIES:
                raise ModelError(f"{file}: <{element.tag}> makes more than {MOST_COPIES} copies")
        waiting += ((child, copies) for child in element)


def _is_count(word):
    return word.isascii() and word.isdigit() and len(word) < 10
