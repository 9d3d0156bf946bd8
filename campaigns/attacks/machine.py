"""The machine: killed and stopped build processes, the cache, the disk, limits, compilers."""

import contextlib
import os
import resource
import shutil
import signal
import time
from pathlib import Path

from campaigns.attacks.descriptions import chain
from campaigns.attacks.table import attack
from campaigns.references import descriptions
from campaigns.target import Start
from dynamics_node.node.building.worker import BUILDER


def node_with_own_cache(target, random):
    cache = target.folder / f"cache_{random.randrange(10**9)}"
    shutil.copytree(target.cache, cache)
    return Start(environment={"XDG_CACHE_HOME": str(cache)}, robot="panda")


def _cache(target):
    environment = (Path("/proc") / str(target.pid) / "environ").read_bytes().split(b"\0")
    (home,) = (v.partition(b"=")[2] for v in environment if v.startswith(b"XDG_CACHE_HOME="))
    return Path(os.fsdecode(home)) / "dynamics_node"


def _builders(target):
    """Process ids of building processes."""
    pids = []
    for number in target.children():
        with contextlib.suppress(OSError):
            if (Path("/proc") / str(number) / "comm").read_text().strip() == BUILDER.name:
                pids.append(number)
    return pids


def _new_text(target, random):
    """A new description text of the served robot."""
    return descriptions()[target.robot].replace("</robot>", f"<!--{random.random()}--></robot>")


@attack()
def build_processes_killed(target, random):
    """SIGKILL at random times."""
    for _ in range(6):
        target.describe(_new_text(target, random))
        target.spin(random.uniform(0.0, 0.8))
        for number in _builders(target):
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        target.spin(0.05)
    target.take(target.robot)


def numpy_start(target, random):
    return Start({"backend": "numpy"}, robot="panda")


@attack(start=numpy_start)
def build_processes_stopped_while_answering(target, random):
    """The answer for 1000 joints exceeds a pipe: the process is killed or stopped while it sends."""
    target.watch.set_pressing(False)
    target.describe(chain(1000))
    (child,) = target.until(lambda: _builders(target), 20, "a building process")
    os.kill(target.pid, signal.SIGSTOP)  # a busy node
    try:
        _wait_until_sending(child)
        os.kill(child, random.choice([signal.SIGKILL, signal.SIGSTOP]))
        time.sleep(0.2)
    finally:
        os.kill(target.pid, signal.SIGCONT)
    target.watch.set_pressing(True)
    target.spin(1)
    target.take("panda")


def _wait_until_sending(child):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if "pipe" in (Path("/proc") / str(child) / "wchan").read_text():
                return
            if (Path("/proc") / str(child) / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)


@attack(start=node_with_own_cache)
def the_cache_emptied(target, random):
    """The cache is emptied while robots are built and served."""
    cache = _cache(target)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        if random.random() < 0.02:
            target.describe(_new_text(target, random))
        for library in cache.glob("*.so"):
            library.unlink(missing_ok=True)
        target.spin(0.02)


@attack(start=node_with_own_cache)
def the_cache_replaced(target, random):
    """The cache is replaced by a file, or removed, between compilation and loading."""
    cache = _cache(target)
    target.spin(random.uniform(0, 2))
    os.kill(target.pid, signal.SIGSTOP)
    shutil.rmtree(cache)
    if random.random() < 0.5:
        cache.write_text("no folder")
    os.kill(target.pid, signal.SIGCONT)
    target.describe(_new_text(target, random))
    target.spin(2)


@attack(start=node_with_own_cache)
def libraries_truncated(target, random):
    """Loaded libraries are truncated to zero or half their size."""
    target.until(lambda: "(c)" in target.process.output(), 60, "compiled code")
    for library in _cache(target).glob("*.so"):
        os.truncate(library, random.choice([0, library.stat().st_size // 2]))
    target.spin(1)
    target.serves()
    target.describe(_new_text(target, random))
    target.spin(2)


def a_folder_for_temporary_files(target, random):
    folder = target.folder / f"tmp_{random.randrange(10**9)}"
    folder.mkdir()
    return Start(environment={"TMPDIR": str(folder)}, robot="panda")


@attack(start=a_folder_for_temporary_files)
def no_place_for_temporary_files(target, random):
    """TMPDIR is missing when a description arrives."""
    for folder in target.folder.glob("tmp_*"):
        shutil.rmtree(folder)
    target.describe(_new_text(target, random))
    target.spin(3)


@attack(start=a_folder_for_temporary_files)
def no_more_files(target, random):
    """The limit of open files is reached when descriptions arrive."""
    open_now = len(list((Path("/proc") / str(target.pid) / "fd").iterdir()))
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (open_now + random.randrange(3), open_now + 10))
    for _ in range(3):
        target.describe(_new_text(target, random))
        target.spin(0.5)


@attack(start=numpy_start)
def no_more_memory(target, random):
    """The address space is nearly full when a large description arrives."""
    pages = int((Path("/proc") / str(target.pid) / "statm").read_text().split()[0])
    room = pages * resource.getpagesize() + random.choice([20, 100]) * 2**20
    resource.prlimit(target.pid, resource.RLIMIT_AS, (room, room))
    target.describe(chain(3000))
    target.spin(5)
    resource.prlimit(target.pid, resource.RLIMIT_AS, (room, room))
    target.take("panda")


VERSION = '#!/bin/sh\n[ "$1" = --version ] && { echo v1; exit; }\n'
COMPILERS = {
    "hangs": b"#!/bin/sh\nexec sleep 1000\n",
    "hangs when it compiles": VERSION.encode() + b"exec sleep 1000\n",
    "crashes": VERSION.encode() + b"kill -SEGV $$\n",
    "is no program": b"\x7fELF garbage",
    "speaks latin-1": b"#!/bin/sh\nprintf 'v\\351rsion'; printf '\\351rror' >&2; [ \"$1\" = --version ]\n",
    "writes nothing": b"#!/bin/sh\nexit 0\n",
    "writes garbage": VERSION.encode()
    + b'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo garbage > "$2"; shift; done\n',
    "talks without end": VERSION.encode() + b"head -c 300000000 /dev/zero | tr '\\0' e >&2; exit 1\n",
}


def a_broken_compiler(target, random):
    compiler = target.folder / f"compiler_{random.randrange(10**9)}"
    compiler.write_bytes(COMPILERS[random.choice(sorted(COMPILERS))])
    compiler.chmod(0o755)
    empty = target.folder / f"empty_{random.randrange(10**9)}"
    empty.mkdir()
    return Start(environment={"CC": str(compiler), "XDG_CACHE_HOME": str(empty)}, robot="panda")


@attack(start=a_broken_compiler)
def broken_compilers(target, random):
    """Compilers that hang, crash, do not exist or print latin-1: NumPy serves, and no process outlives the
    node."""
    target.spin(random.uniform(2, 6))
    target.describe(_new_text(target, random))
    target.spin(2)


def an_empty_cache(target, random):
    empty = target.folder / f"empty_{random.randrange(10**9)}"
    empty.mkdir()
    return Start({"solver": "factor_graph"}, {"XDG_CACHE_HOME": str(empty)}, random.choice(["panda", "ur5"]))


@attack(start=an_empty_cache)
def ended_while_compiling(target, random):
    """Compilers end with the node."""
    target.spin(random.uniform(0.0, 1.5))
