"""The folder of what was compiled, or found, once: files that only the user or root can have written.

A file of it ends with the digest of its name and its content, so that none stands for another. It counts only
when it is a regular file that nobody else owns or may write, and has that digest; else it is as if it were
not there.
"""

import contextlib
import errno
import fcntl
import grp
import hashlib
import os
import pwd
import shutil
import stat
import tempfile
import time
from functools import cache
from importlib.resources import files
from pathlib import Path

from dynamics_node.errors import CompileError

MOST_BYTES = 512 * 2**20  # beyond, what was used longest ago is forgotten
BETWEEN_LOOKS = 1 / 16  # of MOST_BYTES: what a process writes before it looks again
OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40  # on the way to the folder, as Linux has it
_DIGEST = 64  # characters
_WORK = "tmp"  # prefix of files and folders that are being written
_YOUNG = 10.0  # s; a folder this young may not be locked yet
_written = float("inf")  # bytes, since this process has looked


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/dynamics_node or ~/.cache/dynamics_node, made if need be. No other user can write into
    it, or exchange a folder above it. Raises CompileError when it cannot be trusted or made."""
    folder = _base() / "dynamics_node"
    if folder.is_symlink():
        raise CompileError(f"{folder} is a symbolic link: remove it, or set XDG_CACHE_HOME")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in _folders_above(folder):
            _require_ours(above)
        _close_to_others(folder)
    except OSError as error:
        raise no_place(error) from None
    return folder


@cache
def source_digest(*packages: str) -> str:
    """Digest of the Python and C files of packages, with packages within them: for keys of what they make."""
    texts: list[tuple[str, bytes]] = []
    for package in packages:
        folder = Path(str(files(package)))
        ours = (file for file in folder.rglob("*") if file.suffix in (".c", ".py"))
        texts += sorted((f"{package}/{file.relative_to(folder)}", file.read_bytes()) for file in ours)
    return hashlib.sha256(repr(texts).encode()).hexdigest()


def no_place(error: OSError | str) -> CompileError:
    """For an error of the file system."""
    return CompileError(f"no place for compiled code: {error} (set XDG_CACHE_HOME)")


def _base():
    """A relative path counts as none, as the XDG standard has it."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        home = Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise no_place("the user has no home") from None
    if not home.is_absolute():
        raise no_place(f"HOME is {str(home)!r}")
    return home / ".cache"


def _folders_above(folder):
    """The folders on the way to a folder, also through symbolic links. Raises OSError for a circle of
    links."""
    here, parts, links = Path(folder.anchor), [*folder.parts[1:]], 0
    while parts:
        yield here
        beyond = here / parts.pop(0)
        if beyond.is_symlink():
            if (links := links + 1) > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
            target = beyond.readlink()
            here, parts = (Path(target.anchor) if target.is_absolute() else here), [*target.parts, *parts]
            parts = parts[1:] if target.is_absolute() else parts
        else:
            here = here.parent if beyond.name == ".." else beyond


def _require_ours(folder):
    """Raise CompileError if another user could exchange an entry of a folder: it has another owner, or others
    can write in it and it is not sticky, as /tmp is."""
    status = folder.stat()
    writable = status.st_mode & stat.S_IWOTH or (
        status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid)
    )
    if status.st_uid not in (os.getuid(), 0):
        reason = "belongs to another user"
    elif writable and not status.st_mode & stat.S_ISVTX:
        reason = "can be written by others"
    else:
        return
    raise CompileError(f"{folder} {reason}, so they could exchange compiled code: set XDG_CACHE_HOME")


@cache
def _is_private(group):
    """Whether a group is that of this user alone, with the same name, as most distributions make one."""
    try:
        members, user = grp.getgrgid(group), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group == user.pw_gid and members.gr_name == user.pw_name and not {*members.gr_mem} - {user.pw_name}


def _close_to_others(folder):
    """By its descriptor: a name may stand for another folder a moment later."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_uid not in (os.getuid(), 0):
            raise CompileError(f"{folder} belongs to another user: remove it or set XDG_CACHE_HOME")
        if status.st_mode & OPEN_TO_OTHERS:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def read_entry(name: str) -> bytes | None:
    """The content of a file of the cache, None when there is none to be trusted. Raises CompileError."""
    path = cache_folder() / name
    with contextlib.suppress(OSError), _opened(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.getuid(), 0):
            return None
        if status.st_mode & OPEN_TO_OTHERS:
            return None
        content, digest = _split(file.read())
        if digest == _digest(name, content):
            with contextlib.suppress(OSError):  # a cache of root's, or a read-only one
                os.utime(file.fileno())
            return content
    return None


def write_entry(name: str, content: bytes):
    """Put a file into the cache, in place of what has its name. Raises CompileError."""
    folder = cache_folder()
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=_WORK, delete=False) as file:
            try:
                file.write(content + _digest(name, content))
                file.flush()
                Path(file.name).replace(folder / name)
            except BaseException:
                Path(file.name).unlink()
                raise
    except OSError as error:
        raise no_place(error) from None
    _keep_small(folder, len(content))


def names(prefix: str) -> list[str]:
    """The files whose name begins so, the one used last first. Raises CompileError."""
    paths = [path for path in cache_folder().iterdir() if path.name.startswith(prefix)]
    return [path.name for path in sorted(paths, key=_last_use, reverse=True)]


@contextlib.contextmanager
def work_folder():
    """A folder to write in, gone afterwards; what others that were killed have left goes as well. Raises
    CompileError, and OSError when it cannot be made."""
    sweep()
    made = tempfile.TemporaryDirectory(dir=cache_folder(), prefix=_WORK, ignore_cleanup_errors=True)
    with made as work, _locked(work):
        yield Path(work)


def sweep():
    """Remove the folders and files of writers that are no more. Raises CompileError."""
    for path in cache_folder().glob(f"{_WORK}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime < _YOUNG:
                continue
            with _locked(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def _locked(path):
    """Its writer holds a lock as long as it lives, in another container too. Raises OSError when another
    has it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _opened(path):
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _digest(name, content):
    return hashlib.sha256(name.encode() + b"\0" + content).hexdigest().encode()


def _split(data):
    return data[:-_DIGEST], data[-_DIGEST:]


def _last_use(path):
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _keep_small(folder, size):
    """After so many bytes were written; seldom, for a full cache has 10 000 files, which takes 60 ms."""
    global _written
    _written += size
    if _written > BETWEEN_LOOKS * MOST_BYTES:
        _written = 0
        _forget_oldest(folder)


def _forget_oldest(folder):
    """Keep what was used last, up to MOST_BYTES. One look at each file."""
    entries = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                if not entry.name.startswith(_WORK) and not entry.is_dir():
                    status = entry.stat(follow_symlinks=False)
                    entries.append((status.st_mtime, status.st_size, entry.path))
    if sum(size for _, size, _ in entries) <= MOST_BYTES:
        return
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > MOST_BYTES:
            with contextlib.suppress(OSError):
                Path(path).unlink()
