"""Exported C -> a shared library, by the system's compiler."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from dynamics_node.codegen.c.compiler import FLAGS, compiler
from dynamics_node.codegen.export.entry import Entry
from dynamics_node.errors import CompileError

TIME_LIMIT = 600.0  # s


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
