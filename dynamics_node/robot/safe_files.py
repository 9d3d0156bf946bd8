"""Files whose names come from a parameter, which may point anywhere: regular, small, and YAML of lists,
mappings and words without aliases and tags.
"""

import os
import stat
from pathlib import Path


def read_regular_file(path, most: int) -> bytes:
    """At most so many bytes of a file. Never waits for a writer, as a FIFO would make one, and opens no
    device, which may act on being opened. Raises OSError."""
    path = os.fspath(path)
    try:
        _require_regular(path, Path(path).stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (ValueError, UnicodeError) as error:  # NUL bytes, lone surrogates
        raise OSError(f"{path!r} is no path: {error}") from None
    with os.fdopen(descriptor, "rb") as file:
        _require_regular(path, os.fstat(descriptor))  # another may have come in its place
        return file.read(most)


def file_trouble(error: OSError) -> str:
    """What is wrong with a file, for people: without the number of the error."""
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _require_regular(path, status):
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path!r} is no regular file")


def composed(text, what, error):
    """The nodes of a document, with their lines; None if it is empty. what: whose file it is, for messages,
    which say where in it something is wrong and never what stands there. Raises `error`, a class."""
    import yaml

    class Loader(yaml.BaseLoader):
        """A few lines of aliases stand for gigabytes."""

        def compose_node(self, parent, index):
            if self.check_event(yaml.AliasEvent):
                raise error(f"the file of {what} has an alias ({place(self.peek_event().start_mark)})")
            return super().compose_node(parent, index)

        def compose_mapping_node(self, anchor):
            node = super().compose_mapping_node(anchor)
            for key, _ in node.value:
                if key.id != "scalar":
                    raise error(f"the file of {what} is no YAML of words: {place(key.start_mark)}")
            return node

    try:
        return yaml.compose(text, Loader)
    except yaml.MarkedYAMLError as wrong:
        where = f": {place(wrong.problem_mark)}" if wrong.problem_mark else ""
        raise error(f"the file of {what} is no YAML{where}") from None
    except (yaml.YAMLError, RecursionError):
        raise error(f"the file of {what} is no YAML: no plain text, or too deeply nested") from None


def place(mark) -> str:
    """Where in a file, for people."""
    return f"line {mark.line + 1}, column {mark.column + 1}"


def plain(node):
    """Lists, dictionaries and words of nodes."""
    if node is None:
        return None
    if node.id == "sequence":
        return [plain(item) for item in node.value]
    if node.id == "mapping":
        return {key.value: plain(value) for key, value in node.value}
    return node.value
