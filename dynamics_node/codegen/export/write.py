"""Entries -> the files of a target in a folder."""

from pathlib import Path
from typing import Literal, get_args

from dynamics_node.codegen.export import casadi
from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.project import cmake, readme, test_program
from dynamics_node.codegen.export.shared import build_shared
from dynamics_node.codegen.export.source import header, source

Target = Literal["c", "casadi", "shared"]
TARGETS = get_args(Target)
WITH_CASADI = ("casadi", "shared")


def write(folder: Path, prefix: str, entries: list[Entry], target: Target) -> list[Path]:
    """Write the files of a target, and return their paths. Raises CompileError, OSError."""
    files = c_files(prefix, entries, target)
    paths = written(folder, files)
    if target == "shared":
        paths.append(build_shared(folder, prefix, [entry.name for entry in entries]))
    return paths


def c_files(prefix, entries, target) -> dict[str, str]:
    """{path: text} of the targets in C."""
    files = {}
    for entry in entries:
        more = (casadi.declarations(entry), casadi.definitions(entry)) if target in WITH_CASADI else ((), ())
        files[f"{entry.name}.h"] = header(entry, more[0])
        files[f"{entry.name}.c"] = source(entry, more[1])
        files[f"test/{entry.name}_test.c"] = test_program(entry)
    files["CMakeLists.txt"] = cmake(prefix, entries)
    files["README.md"] = readme(prefix, entries, target)
    return files


def written(folder, files) -> list[Path]:
    """Write {relative path: text or bytes} into a folder, and return the paths."""
    paths = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    return paths
