"""The instructions of a cubin by NVIDIA's nvdisasm: what says whether ours are read rightly."""

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_FIRST_WORD = re.compile(
    r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z0-9_]+)(\.\S*)?\s*(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/"
)
_SECOND_WORD = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"(\.L_x_\d+):")


class NoDisassembler(RuntimeError):
    """nvdisasm is absent."""


class Listed(NamedTuple):
    """op: FFMA, LDG, ...; suffix: .E.64 ...; second: the upper word."""

    op: str
    suffix: str
    second: int


def find_nvdisasm():
    """Of the wheel nvidia-cuda-nvdisasm or of a toolkit. Raises NoDisassembler."""
    package = find_spec("nvidia")
    folders = [
        Path(folder, "cu13", "bin") for folder in (package and package.submodule_search_locations) or ()
    ]
    for folder in [*folders, Path("/usr/local/cuda/bin")]:
        if (folder / "nvdisasm").is_file():
            return str(folder / "nvdisasm")
    if found := shutil.which("nvdisasm"):
        return found
    raise NoDisassembler("no nvdisasm: pip install nvidia-cuda-nvdisasm")


def listed(image):
    """The instructions of a cubin with one kernel, in order; without the padding behind its last return."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        command = [find_nvdisasm(), "-c", "-hex", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _parsed(text.splitlines())


def _parsed(lines):
    found, label = [], ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if marked := _LABEL.match(line):
            label = marked[1]
        elif first := _FIRST_WORD.match(line):
            guard, op, suffix, operands = first.groups()
            if op == "NOP" or (op == "BRA" and not guard and operands == f"`({label})"):
                continue  # behind the end: a jump to itself, and nothing
            found.append(Listed(op, suffix or "", int(_SECOND_WORD.match(after)[1], 16)))
    return found
