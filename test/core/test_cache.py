"""The cache of compiled code: private, used again, and never trusted beyond what it is."""

import ctypes
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from compiled import packed
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.codegen import CompileError, cache
from dynamics_node.codegen.c import Kernel, compiler
from dynamics_node.codegen.c import compiler as library
from dynamics_node.codegen.cache import cache_folder, read_entry, sweep, work_folder, write_entry
from dynamics_node.symbolic import trace

ONE = np.array([1.0, 2.0])
as_root = pytest.mark.skipif(os.getuid() != 0, reason="another user's files: only root can make them")


def times(factor=3.0):
    return trace(lambda x: {"y": x * factor + 1.0}, {"x": (2,)})


def in_a_process(code, **environment):
    """What another process prints."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", "from test_cache import *\n" + code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TIMES = "print(packed(Kernel(times())(1, ONE)).tolist())"
RIGHT = "[[4.0, 7.0]]"


def anew():
    """The same in this process, as if it had loaded nothing."""
    library._loaded.clear()
    return str(packed(Kernel(times())(1, ONE)).tolist())


# --- used again ---------------------------------------------------------------------------------------------


def test_cache_is_private_and_used_again(fresh):
    kernel = Kernel(times())
    assert fresh.stat().st_mode & 0o777 == 0o700
    (made,) = fresh.glob("*.so")
    assert made.stat().st_mode & 0o777 == 0o600
    made = made.stat().st_ino
    assert packed(Kernel(times())(1, ONE)).tolist() == [[4.0, 7.0]]
    assert packed(pickle.loads(pickle.dumps(kernel))(1, ONE)).tolist() == [[4.0, 7.0]]
    assert anew() == RIGHT and in_a_process(TIMES) == RIGHT
    assert [path.stat().st_ino for path in fresh.iterdir()] == [made]


def test_unpickling_after_the_cache_was_emptied(fresh, monkeypatch):
    data = pickle.dumps(Kernel(times()))
    shutil.rmtree(fresh)
    assert packed(pickle.loads(data)(1, ONE)).tolist() == [[4.0, 7.0]], "it is loaded"
    monkeypatch.setattr(library, "_loaded", {})
    with compiler.only_cached(), pytest.raises(CompileError, match="only cached"):
        pickle.loads(data)
    assert packed(pickle.loads(data)(1, ONE)).tolist() == [[4.0, 7.0]], "it is compiled anew"


def test_two_processes_compile_the_same_robot_at_once(own_cache):
    assert ROBOTS["ur5"].file  # skips without the robots
    code = (
        "from robots import ROBOTS; import dynamics_node as dn, numpy as np; m = ROBOTS['ur5'].model(); "
        "print(dn.build(m, dn.inverse_dynamics(m), backend='c')(*np.ones((3, 6))).tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (json.loads(process.communicate(timeout=100)[0]) for process in both)
    assert np.allclose(first, second, rtol=1e-12)  # each may have found another way to compile faster
    kinds = sorted(path.suffix for path in own_cache.iterdir())
    assert kinds == [".so", ".so", ".so", ".way"]  # one of every way to compile


# --- loaded out of reach ------------------------------------------------------------------------------------


def test_a_library_that_is_cut_after_loading_changes_nothing(own_cache):
    """Mapped from its file in the cache, the next call would end in SIGBUS; where memory has no files, too."""
    code = (
        "for way in range(2):\n"
        "    kernel = Kernel(times())\n"
        "    [os.truncate(path, 0) for path in cache_folder().iterdir()]\n"
        "    print(packed(kernel(1, ONE)).tolist())\n"
        "    library._loaded.clear()\n"
        "    way or delattr(os, 'memfd_create')\n"
    )
    assert in_a_process(code).splitlines() == [RIGHT, RIGHT]
    assert not list(own_cache.glob("tmp*"))


def test_every_library_is_the_one_that_was_asked_for(fresh):
    """Descriptors are used again, and the loader goes by names: 40 libraries, none mistaken for another."""
    kernels = [Kernel(times(float(factor))) for factor in range(2, 10)]
    data = pickle.dumps(kernels)
    for _ in range(5):
        library._loaded.clear()
        found = [packed(kernel(1, ONE)).tolist() for kernel in pickle.loads(data)]
        assert found == [[[factor + 1.0, 2 * factor + 1.0]] for factor in range(2, 10)]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_descriptor_stays(fresh):
    def count():
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    for factor in (2.0, 3.0, 4.0):
        Kernel(times(factor))
    assert count() == before


# --- what is trusted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "open", "longer"])
def test_a_library_that_was_tampered_with_is_built_anew(fresh, damage):
    assert anew() == RIGHT
    (path,) = fresh.glob("*.so")
    content, inode = path.read_bytes(), path.stat().st_ino
    if damage == "open":
        path.chmod(0o666)
    else:
        path.write_bytes(
            {"cut": content[:100], "other": b"#!/bin/sh\nreboot\n", "empty": b"", "longer": content + b" "}[
                damage
            ]
        )
    assert anew() == RIGHT
    (path,) = fresh.glob("*.so")
    assert path.stat().st_ino != inode and path.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("how", ["renamed", "symbolic link", "hard link"])
def test_one_library_cannot_stand_for_another(fresh, how):
    """Both are the user's own, and intact."""
    Kernel(times(3.0))
    (victim,) = fresh.iterdir()
    Kernel(times(5.0))
    (other,) = set(fresh.iterdir()) - {victim}
    victim.unlink()
    if how == "renamed":
        other.rename(victim)
    elif how == "symbolic link":
        victim.symlink_to(other.name)
    else:
        victim.hardlink_to(other)
    assert anew() == RIGHT


@as_root
def test_what_another_user_has_planted_is_not_trusted(fresh):
    write_entry("ours", b"content")
    assert read_entry("ours") == b"content"
    os.chown(fresh / "ours", 65534, 65534)
    assert read_entry("ours") is None


@as_root
def test_a_folder_of_another_user_is_refused(own_cache):
    own_cache.mkdir()
    os.chown(own_cache, 65534, 65534)
    with pytest.raises(CompileError, match="another user.*XDG_CACHE_HOME"):
        cache_folder()


def test_open_folder_is_closed(fresh):
    fresh.mkdir(mode=0o777)
    fresh.chmod(0o777)
    (fresh / "fifo.so").unlink(missing_ok=True)
    os.mkfifo(fresh / "fifo")
    Kernel(times())
    assert fresh.stat().st_mode & 0o077 == 0
    assert read_entry("fifo") is None, "and it did not hang"


def test_a_folder_that_is_a_link_is_refused_and_its_target_left_alone(own_cache, tmp_path):
    target = tmp_path / "documents"
    target.mkdir(mode=0o755)
    own_cache.symlink_to(target)
    with pytest.raises(CompileError, match="symbolic link.*XDG_CACHE_HOME"):
        cache_folder()
    assert target.stat().st_mode & 0o777 == 0o755


# --- where it is --------------------------------------------------------------------------------------------


def test_a_relative_cache_home_counts_as_none(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "dynamics_node"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_home_that_is_none(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "somewhere")
    with pytest.raises(CompileError, match="HOME.*'somewhere'"):
        cache_folder()
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(cache.pwd, "getpwuid", lambda uid: {}[uid])
    with pytest.raises(CompileError, match="no home"):
        cache_folder()
    assert not list(tmp_path.iterdir())


def test_no_place_for_the_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="no place"):
        cache_folder()


@pytest.mark.parametrize("where", ["the text", "the library"])
def test_a_full_disk_is_told(fresh, monkeypatch, where):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    if where == "the text":
        monkeypatch.setattr(cache.tempfile, "TemporaryDirectory", full)
    else:
        monkeypatch.setattr(cache.tempfile, "NamedTemporaryFile", full)
    with pytest.raises(CompileError, match="No space left"):
        Kernel(times())


def test_no_folder_for_temporary_files_is_needed(own_cache):
    """/tmp may be full or read-only: Python and the compiler write into the cache alone."""
    nowhere = {"TMPDIR": "/nonexistent", "TEMP": "/nonexistent", "TMP": "/nonexistent"}
    code = "import tempfile\ndef gettempdir(): raise OSError('no /tmp')\ntempfile._get_default_tempdir = gettempdir\n"
    assert in_a_process(code + TIMES, **nowhere) == RIGHT


# --- kept small ---------------------------------------------------------------------------------------------


def test_what_was_used_longest_ago_is_forgotten(fresh, monkeypatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 3500)
    for number in range(3):
        write_entry(f"{number}.so", bytes(1000))
        os.utime(fresh / f"{number}.so", (number, number))
    assert read_entry("0.so") == bytes(1000), "now it is the youngest"
    write_entry("3.so", bytes(1000))
    assert {path.name for path in fresh.iterdir()} == {"0.so", "2.so", "3.so"}


def test_a_process_looks_at_the_whole_cache_seldom(own_cache, monkeypatch):
    """Once, and again when it has written a sixteenth of what may be there."""
    looks = []
    monkeypatch.setattr(cache, "_forget_oldest", looks.append)
    monkeypatch.setattr(cache, "_written", float("inf"))
    monkeypatch.setattr(cache, "MOST_BYTES", 16_000)
    for number in range(5):
        write_entry(f"{number}.so", bytes(400))
    assert looks == [own_cache] * 2


def test_leftovers_are_swept_and_work_under_way_is_not(fresh):
    cache_folder()
    for name in ("tmpabcdef", "tmpghijkl"):
        (fresh / name).mkdir()
        (fresh / name / "program.c").write_text("int x;")
    (fresh / "tmp_young").mkdir()
    (fresh / "tmp_file").write_text("")
    with work_folder() as work:
        for path in (fresh / "tmpabcdef", fresh / "tmpghijkl", fresh / "tmp_file", work):
            os.utime(path, (time.time() - 3600,) * 2)
        sweep()
        assert {path.name for path in fresh.iterdir()} == {"tmp_young", work.name}
    assert [path.name for path in fresh.iterdir()] == ["tmp_young"]


# --- compilers ----------------------------------------------------------------------------------------------


@pytest.fixture
def compiler_that(fresh, monkeypatch, tmp_path):
    """compiler_that(script): CC is a program with this text."""

    def make(script):
        path = tmp_path / "cc"
        path.write_bytes(script if isinstance(script, bytes) else script.encode())
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        return path

    return make


VERSION = '#!/bin/sh\n[ "$1" = --version ] && { echo v1; exit; }\n'


def test_no_compiler(fresh, monkeypatch, caplog):
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CC", raising=False)
    model = ROBOTS["ur5"].model()
    with pytest.raises(CompileError, match="C compiler.*PATH"):
        dn.build(model, dn.inverse_dynamics(model), backend="c")
    solver = dn.build(model, dn.inverse_dynamics(model))
    assert solver.choice.backend == "numpy"
    assert caplog.messages == ["no C compiler on the PATH: sudo apt install gcc; numpy serves instead"]


@pytest.mark.parametrize(
    "script, reason",
    [
        ("#!/bin/sh\necho 'internal error' >&2\nexit 3\n", "failed.*internal error"),
        (VERSION + "kill -SEGV $$\n", "failed.*-11"),
        ("#!/bin/sh\nexit 0\n", "failed.* 0"),
        ("#!/bin/sh\nprintf '\\351rror' >&2; exit 1\n", "failed: .rror"),
        (b"\x7fELF garbage", r"cc .*Exec format error"),
        (
            VERSION + 'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo garbage > "$2"; shift; done\n',
            "library.*load",
        ),
        (VERSION + "head -c 3000000 /dev/zero | tr '\\0' e >&2; exit 1\n", "failed: e+$"),
    ],
    ids=["fails", "crashes", "makes nothing", "latin-1", "no program", "makes garbage", "floods"],
)
def test_broken_compiler(fresh, compiler_that, script, reason, caplog):
    """Always a CompileError, so that backend auto takes numpy; and nothing of it is kept."""
    compiler_that(script)
    with pytest.raises(CompileError, match=reason) as raised:
        Kernel(times())
    assert len(str(raised.value)) <= compiler._MOST_OUTPUT + 100
    assert not list(fresh.iterdir())
    model = dn.parse_robot("<robot name='r'><link name='l'/></robot>")
    assert dn.build(model, dn.inverse_dynamics(model)).choice.backend == "numpy"
    assert len(caplog.messages) == 1 and caplog.messages[0].endswith("; numpy serves instead")


@pytest.mark.parametrize("script", ["#!/bin/sh\nexec sleep 1000\n", VERSION + "exec sleep 1000\n"])
def test_a_compiler_that_hangs_is_waited_for_once(fresh, compiler_that, script, monkeypatch):
    """At its first word or at work: then no other try costs a time limit."""
    path = compiler_that(script)
    for name in ("TIME_LIMIT", "TIME_LIMIT_OF_VERSION"):
        monkeypatch.setattr(compiler, name, 0.5)
    for factor in (2.0, 3.0):
        with pytest.raises(CompileError, match=f"{path}.*0.5 s"):
            Kernel(times(factor))
        path.write_text("#!/bin/sh\nexit 0\n")  # it would fail otherwise now
    assert not list(fresh.glob("tmp*"))


# --- cached code only ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{compiler.CACHED_ONLY: "1"}, {"PATH": "/nonexistent", "CC": ""}])
def test_a_filled_cache_needs_no_compiler(own_cache, how):
    """Neither where it is forbidden nor where there is none, and nothing is written."""
    assert in_a_process(TIMES) == RIGHT
    before = {path: path.stat().st_ino for path in own_cache.iterdir()}
    assert in_a_process(TIMES, **how) == RIGHT
    told = in_a_process("try: Kernel(times(7.0))\nexcept CompileError as error: print(error)", **how)
    assert told.startswith(("only cached", "no C compiler on the PATH"))
    assert {path: path.stat().st_ino for path in own_cache.iterdir()} == before


def test_a_filled_cache_may_be_read_only(own_cache):
    assert in_a_process(TIMES) == RIGHT
    own_cache.chmod(0o555)
    assert in_a_process(TIMES, **{compiler.CACHED_ONLY: "1"}) == RIGHT
    own_cache.chmod(0o700)


def test_the_code_of_another_compiler_is_not_taken_while_there_is_one(fresh, compiler_that):
    Kernel(times())
    compiler_that(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo other; exit; }}\nexec {shutil.which("gcc")} "$@"\n'
    )
    library._loaded.clear()
    Kernel(times())
    first, second = sorted(path.name.split("-") for path in fresh.iterdir())
    assert first[0] == second[0] and first[1] != second[1]


def test_libraries_resolve_everything_when_they_are_loaded(fresh):
    """No table of addresses that can be written to later."""
    Kernel(times())
    (path,) = fresh.iterdir()
    done = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True)
    assert "BIND_NOW" in done.stdout or "NOW" in done.stdout
    assert isinstance(library.open_library(path.stem), ctypes.CDLL)


# --- emptied by others --------------------------------------------------------------------------------------

EMPTIES = """#!/bin/sh
[ "$1" = --version ] || if {again} || [ ! -e "$MARK" ]; then touch "$MARK"; rm -rf "{cache}"; fi
exec cc "$@"
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_cache_that_vanishes_under_the_compiler(fresh, monkeypatch, tmp_path, again):
    """It is compiled once more; where that happens again the error names the cache."""
    wrapper = tmp_path / "emptying_cc"
    wrapper.write_text(EMPTIES.format(again=str(again).lower(), cache=fresh))
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    if not again:
        assert anew() == RIGHT
        return
    with pytest.raises(CompileError, match=f"{fresh}.*removed"):
        Kernel(times())
