"""Files that users name: robot descriptions and sidecar files of loops."""

import contextlib
import errno
import os
import socket
from pathlib import Path

import pytest

from dynamics_node.errors import ModelError
from dynamics_node.output_files import making_new, replacing, write_text
from dynamics_node.robot.loops_file import MAX_BYTES, parse_loops_file, read_loops_file
from dynamics_node.robot.safe_files import read_regular_file


def test_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_regular_file(path, 4) == b"0123" and read_regular_file(str(path), 100) == b"0123456789"
    (tmp_path / "link").symlink_to(path)
    assert read_regular_file(tmp_path / "link", 2) == b"01"


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "socket", "terminal", "link to a fifo"])
def test_only_regular_files_are_opened(tmp_path, kind):
    """Opening a FIFO waits for a writer; opening a device may start a watchdog."""
    path = tmp_path / "it"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to a fifo":
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to(tmp_path / "fifo")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    else:
        path = {"device": "/dev/zero", "folder": str(tmp_path), "terminal": "/dev/tty"}[kind]
    for read in (read_loops_file, lambda path: read_regular_file(path, 10)):
        with pytest.raises(OSError, match="regular file"):
            read(path)


def test_fifo_in_place_of_the_file_does_not_block(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("x")
    plain = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda *arguments, **options: plain)
    with pytest.raises(OSError, match="regular file"):
        read_regular_file(path, 10)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", ""])
def test_invalid_path_raises_os_error(path):
    with pytest.raises(OSError):
        read_regular_file(path, 10)


# --- sidecar files -----------------------------------------------------------------------------------------

SECRET = "p4ssw0rd-EXAMPLE"


@pytest.mark.parametrize(
    "text",
    [
        f"user: admin: {SECRET}",
        f"[{SECRET}",
        f"'{SECRET}",
        f"&{SECRET} *{SECRET}x",
        f"*{SECRET}",
        f"!{SECRET} x",
        f"!!python/object/apply:os.system [{SECRET}]",
        f"%{SECRET}\nx",
        f"? {SECRET}\n: [",
        f"{SECRET}\0",
        f'"\\{SECRET}"',
        f"{{{SECRET}: [}}",
        SECRET,
        f"root:{SECRET}:19000:0:99999:7:::\ndaemon:*:1:0::::",
        f"closed_loop: {SECRET}",
        f"closed_loop: [[a, b]]\ntype: {SECRET}",
        f"closed_loop: [[a, [{SECRET}]]]",
        f"- [{SECRET}]",
        "a: 1\n" + f"{SECRET}: [1, 2" * 200,
    ],
)
def test_messages_contain_no_text_of_the_file(text):
    for content in (text, text.encode()):
        with pytest.raises(ModelError) as excinfo:
            parse_loops_file(content)
        assert SECRET not in str(excinfo.value) and "p4ss" not in str(excinfo.value)


def test_message_has_line_and_column():
    with pytest.raises(ModelError, match="YAML.*line 2, column 14"):
        parse_loops_file("closed_loop:\n  user: admin: x")


def test_aliases_raise_before_they_are_expanded():
    """These 465 bytes expand to 9^8 words."""
    text = "a0: &a0 [lol, lol]\n"
    text += "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 9))
    with pytest.raises(ModelError, match="alias.*line 2, column 10"):
        parse_loops_file(text + "closed_loop: [[a, b]]\ntype: [*a8]\n")


@pytest.mark.parametrize(
    "text, message",
    [
        ("x" * (MAX_BYTES + 1), "1048576 bytes"),
        ("[" * 100_000, "YAML"),
        ("closed_loop: [[a, b]]\ntype: [[6d]]", "type.*string"),
        ("? [a, b]\n: c", "key.*line 1"),
        ("closed_loop: [[a, b]]\nname_mot: mot", "name_mot.*list"),
        ("closed_loop: [[a, b]]\njoint_name: [a]", "1 names.*0 types in joint_type"),
        ("closed_loop: [[a, b]]\njoint_name: [a, a]\njoint_type: [FIXED, FIXED]", "joint_name has 'a' twice"),
        ("closed_loop: [[a, b]]\njoint_name: [a]\njoint_type: [UJOINT_XX]", "joint_type 'UJOINT_XX' of 'a'"),
    ],
)
def test_invalid_sidecar_raises(text, message):
    with pytest.raises(ModelError, match=message):
        parse_loops_file(text)


def test_valid_sidecar():
    """Names that look like YAML numbers or booleans stay names."""
    loops = parse_loops_file("closed_loop: [[yes, '1'], [2, 1e3]]\ntype: [6d, 3D]\n").loops
    assert [(loop.kind, loop.predecessor.link, loop.successor.link) for loop in loops] == [
        ("fixed", "yes", "1"),
        ("ball", "2", "1e3"),
    ]


@pytest.mark.parametrize("existing", ["nothing", "a file", "a link"])
def test_file_is_replaced_atomically(tmp_path, existing):
    path, target = tmp_path / "page.html", tmp_path / "target.html"
    if existing == "a file":
        path.write_text("old")
    if existing == "a link":
        target.write_text("old")
        path.symlink_to(target)

    def fill_the_disk():
        with replacing(path) as unfinished:
            unfinished.write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left.*page\.html"):
        fill_the_disk()
    assert existing == "nothing" or path.read_text() == "old"
    assert path.exists() == (existing != "nothing")
    write_text(path, "new")
    assert path.read_text() == "new" and path.is_symlink() == (existing == "a link")
    assert {file.name for file in tmp_path.iterdir()} <= {"page.html", "target.html"}


def test_device_is_written_and_named_in_errors():
    write_text("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="/dev/full"):
        write_text("/dev/full", "text")


def test_open_reader_keeps_the_old_content(tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text("links: {}")
    with path.open() as reader:
        write_text(path, "joints: {}")
        assert reader.read() == "links: {}"
    assert path.read_text() == "joints: {}" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_failed_is_removed_while_another_process_writes_there(tmp_path, monkeypatch):
    remove, parts = os.rmdir, []

    def remove_beside_a_writer(path, **options):
        with contextlib.suppress(FileNotFoundError):
            (parts[0] / "late").write_text("of another process")
        remove(path, **options)

    def fail():
        with making_new(tmp_path / "out") as folder:
            parts.append(folder / "parts")
            parts[0].mkdir()
            raise ValueError

    monkeypatch.setattr(os, "rmdir", remove_beside_a_writer)
    with pytest.raises(ValueError):
        fail()
    assert [*tmp_path.iterdir()] == []
