"""C text -> the bytes of a shared library, by the system's compiler."""

import contextlib
import os
import shutil
import subprocess
from contextvars import ContextVar
from functools import cache

from dynamics_node.codegen.cache import cache_folder, no_place, work_folder
from dynamics_node.codegen.errors import CompileError

FLAGS = (
    *("-O1", "-fexpensive-optimizations", "-fschedule-insns2"),  # for straight lines -O2 is no faster
    *("-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    "-Wl,-z,now",
)
NOT_FUSED = ("-ffp-contract=off",)
# Operations in another order; and sums of products fused, which some processors' own tuning leaves apart.
SCHEDULED = ("-fschedule-insns", "-fsched-pressure", "-mtune=generic")
# Vector code gains from -O3 and scheduling; scalar straight-line code does not.
FOR_VECTORS = ("-O3", "-fschedule-insns", "-fsched-pressure")
TRIES = 2  # of a compilation whose folder another process removes
TIME_LIMIT = 240.0  # s, less than a building process has
TIME_LIMIT_OF_VERSION = 5.0  # s
CACHED_ONLY = "DYNAMICS_NODE_CACHED_ONLY"
_MOST_OUTPUT = 64 * 1024  # bytes of a compiler's output that are looked at

_only_cached = ContextVar("only_cached", default=False)
_hanging: list[str] = []  # what is known of a compiler that did not come back


@contextlib.contextmanager
def only_cached():
    """Inside, no compiler is run: there is what the cache has, or a CompileError."""
    token = _only_cached.set(True)
    try:
        yield
    finally:
        _only_cached.reset(token)


def compiler() -> tuple[str, str]:
    """Path and version of the C compiler: $CC, cc, gcc or clang. Raises CompileError."""
    if _only_cached.get() or os.environ.get(CACHED_ONLY):
        raise CompileError(f"only cached code is used here, and there is none for this ({CACHED_ONLY})")
    return _found_compiler(os.environ.get("CC", ""))


@cache
def _found_compiler(named):
    for name in (named, "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            done = _run([path, "--version"], TIME_LIMIT_OF_VERSION, stdout=subprocess.PIPE)
            return path, _text(done.stdout).partition("\n")[0]
    raise CompileError("no C compiler on the PATH: sudo apt install gcc")


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
    said, code = _compile(compiler()[0], flags, work)
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
