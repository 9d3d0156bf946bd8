"""Shared libraries by what they are made of: compiled once, cached, loaded where nobody reaches them.

The key of a library is a hash of all its source depends on, of the flags and of the processor, and one of the
compiler. What is loaded is a copy in memory of the very bytes that were checked: a file that is cut or
exchanged afterwards changes nothing.
"""

import ctypes
import fcntl
import hashlib
import itertools
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path

from dynamics_node.codegen.c.compiler import FLAGS, compiled, compiler
from dynamics_node.codegen.cache import names, read_entry, work_folder, write_entry
from dynamics_node.codegen.errors import CompileError

_loaded: dict[str, ctypes.CDLL] = {}  # of this process; a library is never unloaded
_numbers = itertools.count(1)


def compile_library(identity: str, source: Callable[[], str], more_flags: tuple[str, ...] = ()) -> str:
    """Key of a library, compiled if the cache has none. Raises CompileError.

    identity: says all that source(), the C text, depends on; source is called when there is none. Without a
    compiler one serves that any compiler has made before.
    """
    flags = FLAGS + more_flags
    program = hash_here(identity, *flags)
    try:
        key = f"{program}-{_hash(*compiler())[:16]}"
    except CompileError as error:
        return _made_before(program, error)
    if not _is_there(key):
        content = compiled(source(), flags)
        _loaded[key] = _load(content)  # before it is kept: a broken compiler's garbage is not
        write_entry(_file(key), content)
    return key


def open_library(key: str) -> ctypes.CDLL:
    """The library of a key. Raises CompileError when the cache has it no more, or not as it was written."""
    if not _is_there(key):
        raise CompileError(f"the compiled library {key[:12]} is not in the cache as it was written")
    return _loaded[key]


def _is_there(key):
    """Load it, unless that is done."""
    if key not in _loaded:
        content = read_entry(_file(key))
        if content is None:
            return False
        _loaded[key] = _load(content)
    return True


def _made_before(program, error):
    for name in names(program):
        key = name.removesuffix(".so")
        if _file(key) == name and _is_there(key):
            return key
    raise error


def _load(content) -> ctypes.CDLL:
    """Raises CompileError."""
    for load in (_load_from_memory, _load_from_file):
        try:
            return load(content)
        except OSError as error:  # systems without memfd_create, /proc, or leave to run what lies in memory
            reason = error
    raise CompileError(f"the compiled library does not load: {reason}")


def _load_from_memory(content):
    if not hasattr(os, "memfd_create"):
        raise OSError("no memfd_create")
    descriptor = os.memfd_create("dynamics_node", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        return ctypes.CDLL(f"/proc/self/fd/{_detour(next(_numbers))}{descriptor}")


def _detour(number):
    """A way through the same folder for every number: descriptors are used again, and the loader takes a name
    that it has seen for the library that it had then."""
    return "".join("./" if digit == "1" else "/" for digit in f"{number:b}")


def _load_from_file(content):
    with work_folder() as work:
        path = work / "program.so"
        path.write_bytes(content)
        return ctypes.CDLL(str(path))  # it stays mapped when its name is gone


def _file(key):
    return f"{key}.so"


def hash_here(*parts: str) -> str:
    """Of some text and of this processor."""
    return _hash(*parts, platform.machine(), _processor())


@cache
def _processor():
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _hash(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
