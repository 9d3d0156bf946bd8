"""Reading files whose names come from a parameter and may point anywhere: only regular, small files, and YAML
with lists, mappings and scalars, without aliases and tags.
"""

import os
import stat
from pathlib import Path


def read_regular_file(path, most: int) -> bytes:
    """The first `most` bytes of a file. Never blocks on a FIFO, and opens no device, which may react to being
    opened. Raises OSError."""
    path = os.fspath(path)
    try:
        _require_regular(path, Path(path).stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (ValueError, UnicodeError) as error:  # NUL bytes, lone surrogates
        raise OSError(f"{path!r} is not a path: {error}") from None
    with os.fdopen(descriptor, "rb") as file:
        _require_regular(path, os.fstat(descriptor))  # the path may have been replaced meanwhile
        return file.read(most)


def file_trouble(error: OSError) -> str:
    """A readable message for an OSError, without its number."""
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _require_regular(path, status):
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path!r} is not a regular file")


def composed(text, what, error):
    """The nodes of a file of one document, see `documents`; None if it is empty."""
    nodes = documents(text, what, error)
    if len(nodes) > 1:
        raise error(f"the file of {what} has a second document: {place(nodes[1].start_mark)}")
    return nodes[0] if nodes else None


def documents(text, what, error) -> list:
    """The nodes of the documents of a file, with their lines, without empty ones. what: the kind of file, for
    messages. These give positions, never content. Raises `error`, a class."""
    import yaml

    class Loader(yaml.BaseLoader):
        """Rejects aliases: a few lines of them expand to gigabytes."""

        def compose_node(self, parent, index):
            if self.check_event(yaml.AliasEvent):
                raise error(f"the file of {what} has an alias ({place(self.peek_event().start_mark)})")
            return super().compose_node(parent, index)

        def compose_mapping_node(self, anchor):
            node = super().compose_mapping_node(anchor)
            for key, _ in node.value:
                if key.id != "scalar":
                    raise error(f"the file of {what} has a key that is not a scalar: {place(key.start_mark)}")
            return node

    nodes = []
    try:
        loader = Loader(text)
        while loader.check_node():
            nodes.append(loader.get_node())
    except yaml.MarkedYAMLError as wrong:
        where = f": {place(wrong.problem_mark)}" if wrong.problem_mark else ""
        raise error(f"the file of {what} is not valid YAML{where}") from None
    except (yaml.YAMLError, RecursionError):
        raise error(f"the file of {what} is not valid YAML: not plain text, or nested too deeply") from None
    return [node for node in nodes if node.id != "scalar" or node.value]


def place(mark) -> str:
    """A position in a file, in words."""
    return f"line {mark.line + 1}, column {mark.column + 1}"


def plain(node):
    """Lists, dictionaries and strings of nodes."""
    if node is None:
        return None
    if node.id == "sequence":
        return [plain(item) for item in node.value]
    if node.id == "mapping":
        return {key.value: plain(value) for key, value in node.value}
    return node.value
