"""Files whose names come from a parameter: whoever sets it may point anywhere."""

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
