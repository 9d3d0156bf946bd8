"""Writing files: atomic, complete or not at all, and never onto a file that is being read."""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

_inputs: ContextVar[frozenset[tuple[int, int]]] = ContextVar("inputs", default=frozenset())


@contextlib.contextmanager
def protecting(paths: Iterable[Path]) -> Iterator[None]:
    """Within the block, `replacing` raises OSError for these files and those directly in these folders, also
    through a link."""
    before = _inputs.set(_inputs.get() | {_identity(file) for path in paths for file in _files(path)})
    try:
        yield
    finally:
        _inputs.reset(before)


def is_protected(path) -> bool:
    """Whether a path leads to a file of `protecting`."""
    return Path(path).is_file() and _identity(path) in _inputs.get()


def _files(path):
    """A regular file, or those of a folder; nothing else can be overwritten."""
    try:
        return [file for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file()]
    except (OSError, ValueError):  # unreadable, or no path
        return []


def _identity(path):
    status = Path(path).stat()
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def replacing(path) -> Iterator[Path]:
    """A temporary path next to `path`; at the end of the block that file replaces `path`.

    Readers see either the old or the new file. After an exception the old file is unchanged. The target of a
    symbolic link is replaced, not the link; devices and FIFOs are written directly. Raises OSError with the
    name of the file, also for an input, see `protecting`.
    """
    if is_protected(path):
        raise OSError(f"{path} is an input: name another file")
    target = Path(path).resolve()
    in_place = target.exists() and not target.is_file()
    unfinished = target if in_place else target.with_name(target.name + ".part")
    try:
        yield unfinished
        if not in_place:
            unfinished.replace(target)
    except OSError as error:
        if error.filename not in (None, str(unfinished)):  # another file, read inside the block
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        if not in_place:
            unfinished.unlink(missing_ok=True)


def write_text(path, text: str):
    """Write a UTF-8 file through `replacing`. Raises OSError."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def making(folder) -> Iterator[Path]:
    """The folder, made with its parents if it is absent. After an exception, what was made is removed with
    all that is in it. Raises OSError."""
    folder = Path(folder)
    made = next((parent for parent in (*reversed(folder.parents), folder) if not parent.exists()), None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise


@contextlib.contextmanager
def making_new(folder) -> Iterator[Path]:
    """A temporary folder next to `folder`, which it becomes at the end of the block. After an exception it is
    removed with all that is in it. Raises OSError, also if `folder` exists."""
    folder = Path(folder)
    unfinished = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.part")
    if folder.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    unfinished.mkdir()
    try:
        yield unfinished
        unfinished.rename(folder)
    except BaseException:
        # renamed at once: processes that still write would fill folders while these are emptied
        removed = unfinished.with_suffix(".removed")
        with contextlib.suppress(OSError):
            unfinished.rename(removed)
        for left in (removed, unfinished):
            shutil.rmtree(left, ignore_errors=True)
        raise
