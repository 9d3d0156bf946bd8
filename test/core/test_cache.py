"""The cache of compiled code: private, reused, and verified before use."""

import ctypes
import json
import os
import pickle
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from compiled import packed
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.codegen import cache
from dynamics_node.codegen.c import Kernel, compiler
from dynamics_node.codegen.cache import cache_folder, read_entry, sweep, work_folder, write_entry
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import trace

ONE = np.array([1.0, 2.0])
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")


def times(factor=3.0):
    return trace(lambda x: {"y": x * factor + 1.0}, {"x": (2,)})


def run_python(code, **environment):
    """The output of another process."""
    path = os.pathsep.join(sys.path)
    process = subprocess.run(
        [sys.executable, "-c", "from test_cache import *\n" + code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


TIMES = "print(packed(Kernel(times())(1, ONE)).tolist())"
RIGHT = "[[4.0, 7.0]]"


def fresh_result():
    """The same in this process, after unloading all libraries."""
    compiler._loaded.clear()
    return str(packed(Kernel(times())(1, ONE)).tolist())


# --- reuse --------------------------------------------------------------------------------------------------


def test_cache_is_private_and_reused(fresh):
    kernel = Kernel(times())
    assert fresh.stat().st_mode & 0o777 == 0o700
    (library_path,) = fresh.glob("*.so")
    assert library_path.stat().st_mode & 0o777 == 0o600
    inode = library_path.stat().st_ino
    assert packed(Kernel(times())(1, ONE)).tolist() == [[4.0, 7.0]]
    assert packed(pickle.loads(pickle.dumps(kernel))(1, ONE)).tolist() == [[4.0, 7.0]]
    assert fresh_result() == RIGHT and run_python(TIMES) == RIGHT
    assert [path.stat().st_ino for path in fresh.iterdir()] == [inode]


def test_unpickling_without_the_cache(fresh, monkeypatch):
    data = pickle.dumps(Kernel(times()))
    shutil.rmtree(fresh)
    assert packed(pickle.loads(data)(1, ONE)).tolist() == [[4.0, 7.0]], "it is loaded"
    monkeypatch.setattr(compiler, "_loaded", {})
    with compiler.only_cached(), pytest.raises(CompileError, match="only cached"):
        pickle.loads(data)
    assert packed(pickle.loads(data)(1, ONE)).tolist() == [[4.0, 7.0]], "it is compiled again"


def test_unpickling_on_another_kind_of_processor_compiles(fresh, monkeypatch):
    """Machines of a cluster may share the folder; code of one may end a process of the other."""
    kernel = Kernel(times())
    data = pickle.dumps(kernel)
    monkeypatch.setattr(compiler, "_processor", lambda: "flags : others")
    there = pickle.loads(data)
    assert there.key != kernel.key and packed(there(1, ONE)).tolist() == [[4.0, 7.0]]
    assert len(list(fresh.glob("*.so"))) == 2


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
    assert first == second
    assert [path.suffix for path in own_cache.iterdir()] == [".so"]


# --- loaded libraries ---------------------------------------------------------------------------------------


def test_truncating_a_loaded_library_changes_nothing(own_cache):
    """A mapping of the cache file would raise SIGBUS at the next call. The second pass lacks memfd_create."""
    code = (
        "for way in range(2):\n"
        "    kernel = Kernel(times())\n"
        "    [os.truncate(path, 0) for path in cache_folder().iterdir()]\n"
        "    print(packed(kernel(1, ONE)).tolist())\n"
        "    compiler._loaded.clear()\n"
        "    way or delattr(os, 'memfd_create')\n"
    )
    assert run_python(code).splitlines() == [RIGHT, RIGHT]
    assert not list(own_cache.glob("tmp*"))


def test_each_kernel_loads_its_own_library(fresh):
    """Descriptors are reused and the loader identifies libraries by name: 40 libraries, each loaded as itself."""
    kernels = [Kernel(times(float(factor))) for factor in range(2, 10)]
    data = pickle.dumps(kernels)
    for _ in range(5):
        compiler._loaded.clear()
        results = [packed(kernel(1, ONE)).tolist() for kernel in pickle.loads(data)]
        assert results == [[[factor + 1.0, 2 * factor + 1.0]] for factor in range(2, 10)]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_descriptors_are_closed(fresh):
    def count():
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    for factor in (2.0, 3.0, 4.0):
        Kernel(times(factor))
    assert count() == before


# --- trust --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "open", "longer"])
def test_damaged_library_is_rebuilt(fresh, damage):
    assert fresh_result() == RIGHT
    (path,) = fresh.glob("*.so")
    content, inode = path.read_bytes(), path.stat().st_ino
    if damage == "open":
        path.chmod(0o666)
    else:
        others = {"other": b"#!/bin/sh\nreboot\n", "empty": b"", "longer": content + b" "}
        path.write_bytes(content[:100] if damage == "cut" else others[damage])
    assert fresh_result() == RIGHT
    (path,) = fresh.glob("*.so")
    assert path.stat().st_ino != inode and path.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("how", ["renamed", "symbolic link", "hard link"])
def test_library_under_another_name_is_rebuilt(fresh, how):
    """Both libraries belong to the user and are intact."""
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
    assert fresh_result() == RIGHT


@needs_root
def test_entry_of_another_user_is_ignored(fresh):
    write_entry("ours", b"content")
    assert read_entry("ours") == b"content"
    os.chown(fresh / "ours", 65534, 65534)
    assert read_entry("ours") is None


@needs_root
def test_folder_of_another_user_raises(own_cache):
    own_cache.mkdir()
    os.chown(own_cache, 65534, 65534)
    with pytest.raises(CompileError, match="another user.*XDG_CACHE_HOME"):
        cache_folder()


def test_permissions_of_an_open_folder_are_restricted(fresh):
    fresh.mkdir(mode=0o777)
    fresh.chmod(0o777)
    (fresh / "fifo.so").unlink(missing_ok=True)
    os.mkfifo(fresh / "fifo")
    Kernel(times())
    assert fresh.stat().st_mode & 0o077 == 0
    assert read_entry("fifo") is None, "reading it must not block"


@pytest.fixture
def below(tmp_path, monkeypatch):
    """below(mode, owner): a folder with this mode, above the folder of the cache."""

    def make(mode, owner=None):
        above = tmp_path / "above"
        (above / "home").mkdir(parents=True)
        above.chmod(mode)
        if owner is not None:
            os.chown(above, owner, -1)
        monkeypatch.setenv("XDG_CACHE_HOME", str(above / "home"))
        return above

    return make


@pytest.mark.parametrize("mode", [0o777, 0o772])
def test_a_place_that_others_can_exchange_raises(below, mode):
    """Another user could move `home` away and put an own one there, between a check and a read."""
    above = below(mode)
    for use in (cache_folder, lambda: read_entry("a"), lambda: write_entry("a", b"b"), sweep):
        with pytest.raises(CompileError, match=f"{above} can be written by others"):
            use()


@pytest.mark.parametrize("mode", [0o1777, 0o755, 0o700])
def test_a_place_that_only_its_owner_can_exchange_is_used(below, mode):
    """Only the owner of an entry can exchange it in a sticky folder, as /tmp is."""
    below(mode)
    write_entry("a", b"b")
    assert read_entry("a") == b"b"


@needs_root
def test_a_place_of_another_user_raises(below):
    above = below(0o755, owner=12345)
    with pytest.raises(CompileError, match=f"{above} belongs to another user"):
        cache_folder()


def test_folders_on_the_way_of_links_count(tmp_path, monkeypatch):
    """A link in an open folder on the way, whose end is a private folder."""
    (tmp_path / "open").mkdir()
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "open" / "second").symlink_to("../private")
    (tmp_path / "first").symlink_to(tmp_path / "open" / "second")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    assert cache_folder().parent.resolve() == tmp_path / "private"
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CompileError, match="open can be written by others"):
        cache_folder()


def test_a_circle_of_links_raises(tmp_path, monkeypatch):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="[Tt]oo many"):
        [*cache._folders_above(tmp_path / "a" / "dynamics_node")]


@pytest.mark.parametrize("shared", [False, True])
def test_a_group_of_one_user_is_no_other_user(below, monkeypatch, shared):
    """Most distributions give every user a group of the same name, and folders are writable by it."""
    own = pwd.getpwuid(os.getuid())
    group = SimpleNamespace(gr_name=own.pw_name, gr_mem=["somebody"] if shared else [])
    monkeypatch.setattr(cache.grp, "getgrgid", lambda _: group)
    cache._is_private.cache_clear()
    above = below(0o770)
    os.chown(above, -1, own.pw_gid)
    try:
        if shared:
            with pytest.raises(CompileError, match="can be written by others"):
                cache_folder()
        else:
            cache_folder()
    finally:
        cache._is_private.cache_clear()


def test_linked_folder_raises_and_its_target_is_unchanged(own_cache, tmp_path):
    target = tmp_path / "documents"
    target.mkdir(mode=0o755)
    own_cache.symlink_to(target)
    with pytest.raises(CompileError, match="symbolic link.*XDG_CACHE_HOME"):
        cache_folder()
    assert target.stat().st_mode & 0o777 == 0o755


# --- location -----------------------------------------------------------------------------------------------


def test_relative_cache_home_is_ignored(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "dynamics_node"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_invalid_home_raises(monkeypatch, tmp_path):
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


def test_cache_home_that_is_a_file_raises(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="no place"):
        cache_folder()


@pytest.mark.parametrize("where", ["the text", "the library"])
def test_full_disk_raises_compile_error(fresh, monkeypatch, where):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    if where == "the text":
        monkeypatch.setattr(cache.tempfile, "TemporaryDirectory", full)
    else:
        monkeypatch.setattr(cache.tempfile, "NamedTemporaryFile", full)
    with pytest.raises(CompileError, match="No space left"):
        Kernel(times())


def test_compiling_needs_no_temporary_folder(own_cache):
    """/tmp may be full or read-only: Python and the compiler write only into the cache."""
    nowhere = {"TMPDIR": "/nonexistent", "TEMP": "/nonexistent", "TMP": "/nonexistent"}
    code = "import tempfile\ndef gettempdir(): raise OSError('no /tmp')\ntempfile._get_default_tempdir = gettempdir\n"
    assert run_python(code + TIMES, **nowhere) == RIGHT


# --- size ---------------------------------------------------------------------------------------------------


def test_least_recently_used_entry_is_removed(fresh, monkeypatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 3500)
    for number in range(3):
        write_entry(f"{number}.so", bytes(1000))
        os.utime(fresh / f"{number}.so", (number, number))
    assert read_entry("0.so") == bytes(1000), "now it is the most recent"
    write_entry("3.so", bytes(1000))
    assert {path.name for path in fresh.iterdir()} == {"0.so", "2.so", "3.so"}


def test_cache_size_is_checked_rarely(own_cache, monkeypatch):
    """Once, and again after writing a sixteenth of the limit."""
    checks = []
    monkeypatch.setattr(cache, "_forget_oldest", checks.append)
    monkeypatch.setattr(cache, "_written", float("inf"))
    monkeypatch.setattr(cache, "MOST_BYTES", 16_000)
    for number in range(5):
        write_entry(f"{number}.so", bytes(400))
    assert checks == [own_cache] * 2


def test_sweep_removes_leftovers_but_no_work_in_progress(fresh):
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
def set_compiler(fresh, monkeypatch, tmp_path):
    """set_compiler(script) sets CC to a program with this text."""

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
def test_broken_compiler(fresh, set_compiler, script, reason, caplog):
    """Always a CompileError, so backend auto falls back to numpy; the cache stays empty."""
    set_compiler(script)
    with pytest.raises(CompileError, match=reason) as excinfo:
        Kernel(times())
    assert len(str(excinfo.value)) <= compiler._MOST_OUTPUT + 100
    assert not list(fresh.iterdir())
    model = dn.parse_robot("<robot name='r'><link name='l'/></robot>")
    assert dn.build(model, dn.inverse_dynamics(model)).choice.backend == "numpy"
    assert len(caplog.messages) == 1 and caplog.messages[0].endswith("; numpy serves instead")


@pytest.mark.parametrize("script", ["#!/bin/sh\nexec sleep 1000\n", VERSION + "exec sleep 1000\n"])
def test_hanging_compiler_times_out_once(fresh, set_compiler, script, monkeypatch):
    """At --version or at work; the next call fails without another time limit."""
    path = set_compiler(script)
    for name in ("TIME_LIMIT", "TIME_LIMIT_OF_VERSION"):
        monkeypatch.setattr(compiler, name, 0.5)
    for factor in (2.0, 3.0):
        with pytest.raises(CompileError, match=f"{path}.*0.5 s"):
            Kernel(times(factor))
        path.write_text("#!/bin/sh\nexit 0\n")  # a second run would raise another error
    assert not list(fresh.glob("tmp*"))


# --- cached code only ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [{compiler.CACHED_ONLY: "1"}, {"PATH": "/nonexistent", "CC": ""}])
def test_filled_cache_needs_no_compiler(own_cache, environment):
    """If compiling is forbidden or no compiler exists; nothing is written."""
    assert run_python(TIMES) == RIGHT
    before = {path: path.stat().st_ino for path in own_cache.iterdir()}
    assert run_python(TIMES, **environment) == RIGHT
    message = run_python("try: Kernel(times(7.0))\nexcept CompileError as error: print(error)", **environment)
    assert message.startswith(("only cached", "no C compiler on the PATH"))
    assert {path: path.stat().st_ino for path in own_cache.iterdir()} == before


def test_filled_cache_may_be_read_only(own_cache):
    assert run_python(TIMES) == RIGHT
    own_cache.chmod(0o555)
    assert run_python(TIMES, **{compiler.CACHED_ONLY: "1"}) == RIGHT
    own_cache.chmod(0o700)


def test_code_of_another_compiler_is_not_reused(fresh, set_compiler):
    Kernel(times())
    set_compiler(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo other; exit; }}\nexec {shutil.which("gcc")} "$@"\n'
    )
    compiler._loaded.clear()
    Kernel(times())
    first, second = sorted(path.name.split("-") for path in fresh.iterdir())
    assert first[0] == second[0] and first[1] != second[1]


def test_code_for_another_target_is_not_taken(fresh, set_compiler):
    """The path and the version of a compiler stay, its flags change."""
    for flag in ("-DONE", "-DOTHER"):
        set_compiler(f'#!/bin/sh\nexec {shutil.which("gcc")} "$@" {flag}\n')
        compiler._compiler_named.cache_clear()
        compiler._loaded.clear()
        Kernel(times())
    first, second = sorted(path.name.split("-") for path in fresh.iterdir())
    assert first[0] == second[0] and first[1] != second[1]


def test_a_compiler_without_flags_for_this_processor(fresh, set_compiler):
    """As those of RISC-V."""
    set_compiler(
        '#!/bin/sh\nfor word; do [ "$word" = -march=native ] && { echo unknown >&2; exit 1; }; done\n'
        f'exec {shutil.which("gcc")} "$@"\n'
    )
    assert Kernel(times())(1, np.ones((1, 2)))[1] and compiler.compiler().native == ()


def test_libraries_resolve_symbols_when_loaded(fresh):
    """No table of addresses stays writable."""
    Kernel(times())
    (path,) = fresh.iterdir()
    process = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True)
    assert "BIND_NOW" in process.stdout or "NOW" in process.stdout
    assert isinstance(compiler.open_library(path.stem), ctypes.CDLL)


# --- a cache that is removed ---------------------------------------------------------------------------------

EMPTIES = """#!/bin/sh
[ "$1" = --version ] || if {again} || [ ! -e "$MARK" ]; then touch "$MARK"; rm -rf "{cache}"; fi
exec cc "$@"
"""


@pytest.mark.parametrize("again", [False, True])
def test_cache_removed_while_compiling(fresh, monkeypatch, tmp_path, again):
    """The code is compiled once more; if the cache vanishes again, the error names it."""
    wrapper = tmp_path / "emptying_cc"
    wrapper.write_text(EMPTIES.format(again=str(again).lower(), cache=fresh))
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    if not again:
        assert fresh_result() == RIGHT
        return
    with pytest.raises(CompileError, match=f"{fresh}.*removed"):
        Kernel(times())
