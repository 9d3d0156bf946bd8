"""C text -> a shared library: compiled once by the system's compiler, cached, loaded where nobody reaches
it.

The key of a library is a hash of all its source depends on, of the flags and of the processor, and one of
the compiler. What is loaded is a copy in memory of the very bytes that were checked: a file that is cut or
exchanged afterwards changes nothing. Of several options to compile a Program the fastest is measured once on
this processor and noted in the cache (`compile_fastest`).
"""

import ctypes
import fcntl
import hashlib
import itertools
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from pathlib import Path
from time import thread_time_ns
from typing import NamedTuple

from dynamics_node.codegen.cache import cache_folder, names, no_place, read_entry, work_folder, write_entry
from dynamics_node.errors import CompileError

FLAGS = (
    *("-O1", "-fexpensive-optimizations", "-fschedule-insns2"),  # for straight lines -O2 is no faster
    *("-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    "-Wl,-z,now",
)
NATIVE = "-march=native"  # where the compiler takes it: those of RISC-V and older ones of ARM do not
# Operations in another order; and sums of products fused, which the tuning for some x86 processors leaves
# apart.
SCHEDULED = (
    *("-fschedule-insns", "-fsched-pressure", "-frename-registers"),
    *(("-mtune=generic",) if platform.machine() == "x86_64" else ()),
)
FOR_LIMBS = (*SCHEDULED, "-O2")  # limbs side by side gain 1 to 7 %
# The compiler's own vectors, of numbers between limbs, cost long Programs 2 to 23 %; short ones gain 2 to 6.
FOR_LONG_LIMBS = (*FOR_LIMBS, "-fno-tree-slp-vectorize")
# Lanes gain from -O3, 4 to 20 % of derivatives, but nothing from scheduling.
FOR_LANES = ("-O3",)
# Vector code gains from -O3 and scheduling; scalar straight-line code does not.
FOR_VECTORS = ("-O3", "-fschedule-insns", "-fsched-pressure", "-frename-registers")
TRIES = 2  # of a compilation whose folder another process removes
TIME_LIMIT = 240.0  # s, less than a building process has
TIME_LIMIT_OF_VERSION = 5.0  # s
CACHED_ONLY = "DYNAMICS_NODE_CACHED_ONLY"
_PROCESSOR_LINES = (
    "model name",
    "flags",
    "Features",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "isa",
    "uarch",
)
_MOST_OUTPUT = 64 * 1024  # bytes of a compiler's output that are looked at

_only_cached = ContextVar("only_cached", default=False)
_hanging: list[str] = []  # what is known of a compiler that did not come back
_loaded: dict[str, ctypes.CDLL] = {}  # of this process; a library is never unloaded
_numbers = itertools.count(1)
ROUNDS = 40  # of all options in turn; of each the shortest time counts
CLEARLY = 0.98  # of the time of the first option: what another must stay below
_untuned = ContextVar("untuned", default=False)


@contextmanager
def only_cached():
    """Inside, no compiler is run: there is what the cache has, or a CompileError."""
    token = _only_cached.set(True)
    try:
        yield
    finally:
        _only_cached.reset(token)


class Compiler(NamedTuple):
    """path; version: what it prints; native: its flags for this processor; target: what they mean."""

    path: str
    version: str
    native: tuple[str, ...]
    target: str


def compiler() -> Compiler:
    """The C compiler: $CC, cc, gcc or clang. Raises CompileError."""
    if _only_cached.get() or os.environ.get(CACHED_ONLY):
        raise CompileError(f"only cached code is used here, and there is none for this ({CACHED_ONLY})")
    return _compiler_named(os.environ.get("CC", ""))


@cache
def _compiler_named(named):
    for name in (named, "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            done = _run([path, "--version"], TIME_LIMIT_OF_VERSION, stdout=subprocess.PIPE)
            return Compiler(path, _text(done.stdout).partition("\n")[0], *_target(path))
    raise CompileError("no C compiler on the PATH: sudo apt install gcc")


def _target(path):
    """Flags for this processor, and the command that the compiler makes of them: with -### it is not run,
    which takes 2 ms."""
    command = [path, NATIVE, *("-###", "-x", "c", "-E", "-")]
    environment = {**os.environ, "LC_ALL": "C"}
    done = _run(command, TIME_LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    return () if done.returncode else (NATIVE,), _text(done.stdout)


def compiled(source: str, flags) -> bytes:
    """The library of a C text. Raises CompileError: no compiler, one that fails, hangs, or has no room."""
    for _ in range(TRIES):
        try:
            with work_folder() as work:
                if (built := _built(source, flags, work)) is not None:
                    return built
        except FileNotFoundError:
            continue
        except OSError as error:
            raise no_place(error) from None
    raise no_place(f"{cache_folder()} was removed while the compiler ran, {TRIES} times")


def _built(source, flags, work):
    """None when the folder has gone meanwhile. Raises CompileError and OSError."""
    text, built = work / "program.c", work / "program.so"
    text.write_text(source)
    cc = compiler()
    said, code = _compile(cc.path, (*cc.native, *flags), work)
    if not text.is_file():
        return None
    if code or not built.is_file():
        raise CompileError(f"the C compiler failed: {_reason(said, code)}")
    return built.read_bytes()


def _compile(path, flags, work):
    """What the compiler says, in English, and its exit code. Its temporary files are here too: /tmp may be
    full or read-only."""
    environment = {**os.environ, "TMPDIR": str(work), "LC_ALL": "C"}
    command = [path, *flags, "-o", str(work / "program.so"), str(work / "program.c"), "-lm"]
    done = _run(command, TIME_LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    return _text(done.stdout), done.returncode


def _run(command, limit, **options):
    """One that hangs is not tried again in this process. Raises CompileError.

    stdout: a pipe, which ends with the command; without one subprocess looks for that every 50 ms.
    """
    if _hanging:
        raise CompileError(_hanging[0])
    nothing = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, timeout=limit, **{**nothing, **options})
    except subprocess.TimeoutExpired:
        _hanging.append(f"the C compiler {command[0]} did not come back within {limit:g} s")
        raise CompileError(_hanging[0]) from None
    except OSError as error:
        raise CompileError(f"the C compiler {command[0]} does not run: {error.strerror}") from None


def _text(output):
    return output[:_MOST_OUTPUT].decode(errors="replace")


def _reason(said, code):
    """The line of a failed compiler's output that says most."""
    lines = said.strip().splitlines() or [f"exit code {code}"]
    return next((line for line in lines if "error" in line), lines[-1]).strip()


def compile_library(identity: str, source: Callable[[], str], more_flags: tuple[str, ...] = ()) -> str:
    """Key of a library, compiled if the cache has none. Raises CompileError.

    identity: says all that source(), the C text, depends on; source is called when there is none. Without a
    compiler one serves that any compiler has made before.
    """
    flags = FLAGS + more_flags
    program = hash_here(identity, *flags)
    try:
        key = f"{program}-{_hash(repr(compiler()))[:16]}"
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


def library_path(key: str) -> Path:
    """The file of a key, for libraries that load others by name. It is checked now, not while it is loaded.
    Raises CompileError."""
    content = read_entry(_file(key))
    if content is None:
        raise CompileError(f"the compiled library {key[:12]} is not in the cache as it was written")
    return cache_folder() / _file(key)


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


def has_avx512() -> bool:
    """True where the processor has registers of 64 bytes."""
    return " avx512f " in _processor()


def hash_here(*parts: str) -> str:
    """Of some text and of this processor."""
    return _hash(*parts, platform.machine(), _processor())


@cache
def _processor():
    """What code for this processor depends on: the lines of x86, ARM and RISC-V."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(_PROCESSOR_LINES)}))


def _hash(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def untuned():
    """Inside, of a Program that was not measured before only the first option is compiled."""
    token = _untuned.set(True)
    try:
        yield
    finally:
        _untuned.reset(token)


class CompileOption(NamedTuple):
    """identity, source, flags: as of `compile_library`."""

    identity: str
    source: Callable[[], str]
    flags: tuple[str, ...] = ()


Trial = Callable[[str], Callable[[], object]]  # a key -> a function that runs the library for some 10 us


def compile_fastest(
    options: dict[str, CompileOption], trial: Trial, promising: Callable[[], list[str]] | None = None
) -> str:
    """Key of the library compiled with the fastest of the options: the first one unless another is clearly
    faster, or `untuned`.

    promising(): the names of those worth a trial, by default all of them. Raises CompileError.
    """
    return compile_library(*options[fastest_option(options, trial, promising)])


def fastest_option(
    options: dict[str, CompileOption], trial: Trial, promising: Callable[[], list[str]] | None = None
) -> str:
    """Name of the option that `compile_fastest` takes: as noted in the cache, else measured."""
    first = next(iter(options))
    if len(options) == 1:
        return first
    note = f"{hash_here(*(part for name, option in options.items() for part in (name, option.identity)))}.way"
    chosen = (read_entry(note) or b"").decode(errors="replace")
    if chosen in options:
        return chosen
    if _untuned.get():
        return first
    tried = options if promising is None else {name: options[name] for name in promising()}
    if len(tried) > 1:
        chosen = fastest({name: trial(key) for name, key in _compiled(tried).items()})
    else:
        (chosen,) = tried
    with suppress(CompileError):  # a full disk: another process will measure again
        write_entry(note, chosen.encode())
    return chosen


def fastest(trials: dict[str, Callable[[], object]]) -> str:
    """Name of the function that takes the least time."""
    times = dict.fromkeys(trials, float("inf"))
    for _ in range(ROUNDS):
        for name, run in trials.items():
            started = thread_time_ns()
            run()
            times[name] = min(times[name], thread_time_ns() - started)
    first, best = next(iter(times)), min(times, key=times.__getitem__)
    return best if times[best] < CLEARLY * times[first] else first


def _compiled(options):
    """Keys by the names of the options; side by side, for the compiler is a process of its own."""
    with ThreadPoolExecutor(len(options)) as pool:
        keys = {
            name: pool.submit(copy_context().run, compile_library, *option)
            for name, option in options.items()
        }
        return {name: key.result() for name, key in keys.items()}
