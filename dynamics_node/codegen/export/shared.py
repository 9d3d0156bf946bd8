"""Exported C -> a shared library, by the system's compiler."""

import subprocess
from pathlib import Path

from dynamics_node.codegen.c.compiler import FLAGS, compiler
from dynamics_node.codegen.errors import CompileError

TIME_LIMIT = 600.0  # s


def build_shared(folder: Path, prefix: str, names) -> Path:
    """Compile the functions of a folder into lib<prefix>.so. Raises CompileError."""
    library = folder / f"lib{prefix}.so"
    command = [compiler().path, *FLAGS, "-o", library.name, *(f"{name}.c" for name in names), "-lm"]
    run(command, folder)
    return library


def run(command, folder: Path):
    """Run a compiler in a folder. Raises CompileError with the last line that it prints."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]}: {error}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CompileError(f"{command[0]} fails ({done.returncode}) in {folder}: {last}")
