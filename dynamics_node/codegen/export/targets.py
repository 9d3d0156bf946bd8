"""Entries -> the files of a target in a folder."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from dynamics_node.codegen.c.compiler import FLAGS, compiler
from dynamics_node.codegen.export import casadi, fmu
from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.project import cmake, readme, test_program
from dynamics_node.codegen.export.source import header, source
from dynamics_node.errors import CompileError
from dynamics_node.output_files import making, replacing

Target = Literal["c", "casadi", "shared", "fmu"]
TARGETS = get_args(Target)
WITH_CASADI = ("casadi", "shared")
DOUBLE = (*WITH_CASADI, "fmu")  # targets whose interface is double
TIME_LIMIT = 600.0  # s, of a compiler


def one_file(entry: Entry, with_casadi: bool = False) -> str:
    """The C text of an Entry: source and header in one."""
    declared = header(entry, casadi.declarations(entry) if with_casadi else ())
    defined = source(entry, casadi.definitions(entry) if with_casadi else ())
    return defined.replace(f'#include "{entry.name}.h"', declared)


def write(folder: Path, prefix: str, entries: list[Entry], target: Target) -> list[Path]:
    """Write the files of a target, and return their paths; after an error, a new folder is removed.

    Raises CompileError, OSError, and FileExistsError where the folder has functions of another export, which
    these files would not name.
    """
    if target == "fmu":
        files: Mapping[str, str | bytes] = {f"{entry.name}.fmu": fmu.archive(entry) for entry in entries}
    else:
        _require_no_others(folder, [entry.name for entry in entries])
        files = _c_files(prefix, entries, target)
    with making(folder):
        paths = _written(folder, files)
        if target == "shared":
            paths.append(build_shared(folder, prefix, entries))
    return paths


def _require_no_others(folder, names):
    """README.md lists the functions of an export in a table."""
    readme = folder / "README.md"
    text = readme.read_text(errors="replace") if readme.is_file() else ""
    listed = re.findall(r"^\| `(\w+)`", text, re.MULTILINE) if "`dynamics export" in text else []
    if others := [name for name in listed if name not in names]:
        raise FileExistsError(
            f"{folder} has {', '.join(others)} of another export: export all functions in one call, or "
            "choose another folder"
        )


def _c_files(prefix, entries, target) -> dict[str, str]:
    """{path: text} of the targets in C."""
    files = {}
    for entry in entries:
        with_casadi = target in WITH_CASADI
        files[f"{entry.name}.h"] = header(entry, casadi.declarations(entry) if with_casadi else ())
        files[f"{entry.name}.c"] = source(entry, casadi.definitions(entry) if with_casadi else ())
        files[f"test/{entry.name}_test.c"] = test_program(entry)
    return files | {"CMakeLists.txt": cmake(prefix, entries), "README.md": readme(prefix, entries, target)}


def _written(folder, files) -> list[Path]:
    """Write {relative path: text or bytes} into a folder, all or none, and return the paths."""
    paths = [folder / name for name in files]
    with contextlib.ExitStack() as stack:
        for path, content in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = stack.enter_context(replacing(path))
            unfinished.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def build_shared(folder: Path, prefix: str, entries: list[Entry]) -> Path:
    """Compile the functions of a folder into lib<prefix>.so. Raises CompileError."""
    library = folder / f"lib{prefix}.so"
    command = [compiler().path, *FLAGS, "-o", library.name, *(f"{entry.name}.c" for entry in entries), "-lm"]
    run(command, folder)
    return library


def run(command, folder: Path):
    """Run a compiler in a folder. Raises CompileError with the last line that it prints."""
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CompileError(f"{command[0]}: {error}") from None
    try:
        _, printed = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{command[0]} takes more than {TIME_LIMIT:g} s in {folder}") from None
    finally:  # the compiler itself is a child of the command
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        last = (printed.strip().splitlines() or ["no message"])[-1]
        raise CompileError(f"{command[0]} fails ({process.returncode}) in {folder}: {last}")
