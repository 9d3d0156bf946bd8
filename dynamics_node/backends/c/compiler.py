"""C text -> shared library in a private cache.

The key of a library is the hash of all its source depends on, of the compiler and of the processor. A
library is loaded only from a folder that is the user's alone, and only if it has the digest noted when it was
written.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

FLAGS = (
    *("-O1", "-fexpensive-optimizations", "-fschedule-insns2"),  # for straight lines -O2 is no faster
    *("-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
)
NOT_FUSED = ("-ffp-contract=off",)
FOR_VECTORS = (
    "-O3",
    "-fschedule-insns",
    "-fsched-pressure",
)  # they want what straight lines of numbers do not
TIME_LIMIT = 600  # s


class CompileError(RuntimeError):
    """No library: no compiler, one that fails, or no place to put it. One line."""


def compile_library(identity: str, source: Callable[[], str], more_flags: tuple[str, ...] = ()) -> str:
    """Key of a library, compiled if the cache has none. Raises CompileError.

    identity: says all that source(), the C text, depends on; source is called when there is none.
    """
    flags = FLAGS + more_flags
    key = _key(identity, flags)
    path = cache_folder() / f"{key}.so"
    if not _intact(path):
        _compile(source(), flags, path)
    return key


def open_library(key: str) -> ctypes.CDLL:
    """The library of a key. Raises CompileError when the cache has it no more, or not as it was written."""
    path = cache_folder() / f"{key}.so"
    if not _intact(path):
        raise CompileError(f"the compiled library {key[:12]} is not in the cache as it was written")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompileError(f"the compiled library does not load: {error}") from None


def cache_folder() -> Path:
    """Folder of the compiled libraries, mode 0700. Raises CompileError when it is not ours alone."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "dynamics_node"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise CompileError(f"{folder} belongs to another user: remove it or set XDG_CACHE_HOME")
        if status.st_mode & 0o077:
            folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise CompileError(f"no place for compiled code: {error} (set XDG_CACHE_HOME)") from None


@cache
def compiler() -> tuple[str, str]:
    """Path and version of the C compiler: $CC, cc or gcc. Raises CompileError."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
            return path, done.stdout.partition("\n")[0]
    raise CompileError("no C compiler on the PATH: sudo apt install gcc")


@cache
def _processor():
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _key(identity, flags):
    parts = (identity, *compiler(), *flags, platform.machine(), _processor())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _intact(path):
    """True when the library is there and is what was written."""
    note = path.with_suffix(".sha256")
    try:
        return path.stat().st_uid == os.getuid() and note.read_text() == _digest(path)
    except OSError:
        return False


def _compile(source, flags, path):
    """Compile beside the target and move it there: two processes may do so at once."""
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        text, built = Path(work) / "program.c", Path(work) / "program.so"
        text.write_text(source)
        command = [compiler()[0], *flags, "-o", str(built), str(text), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"the C compiler failed: {error}") from None
        if done.returncode or not built.is_file():
            raise CompileError(f"the C compiler failed: {_reason(done)}")
        note = Path(work) / "note"
        note.write_text(_digest(built))
        note.replace(path.with_suffix(".sha256"))
        built.replace(path)


def _reason(done):
    """The line of a failed compiler's output that says most."""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in lines if "error" in line), lines[-1]).strip()
