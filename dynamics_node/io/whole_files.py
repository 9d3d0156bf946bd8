"""Files that are written whole or not at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end of the block that file takes the place of `path`.

    A reader sees the old file or the new one, never a part. After an exception the old file stays as it is.
    The target of a symbolic link is replaced, not the link; a device or a FIFO is written to directly.
    Raises OSError with the name of the file.
    """
    target = Path(path).resolve()
    in_place = target.exists() and not target.is_file()
    unfinished = target if in_place else target.with_name(target.name + ".part")
    try:
        yield unfinished
        if not in_place:
            unfinished.replace(target)
    except OSError as error:
        if error.filename not in (None, str(unfinished)):  # another file, of those that are read meanwhile
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        if not in_place:
            unfinished.unlink(missing_ok=True)


def write_text(path, text: str, errors="strict"):
    """A UTF-8 file of the text, through `replacing`. errors: as of `open`. Raises OSError."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors=errors)
