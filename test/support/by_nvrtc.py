"""Kernels compiled for devices that nobody has here, by the compiler that CuPy uses: what a thread takes of them."""

import re
from typing import NamedTuple

import pytest

from dynamics_node.codegen.cuda.device import OPTIONS

ARCHS = (75, 80, 86, 90, 100, 120)
_NUMBERS = {
    "registers": r"Used (\d+) registers",
    "spilled": r"(\d+) bytes spill stores",
    "shared": r"(\d+) bytes smem",
}


class Taken(NamedTuple):
    """registers and bytes that are spilled of a thread; shared: bytes of shared memory of a block."""

    registers: int
    spilled: int
    shared: int


def compiled(text, arch) -> Taken:
    """A text of one kernel, with the options of CuPy. Skips the test where CuPy or NVRTC is missing."""
    nvrtc = pytest.importorskip("cupy", reason="CuPy: pip install cupy-cuda13x").cuda.nvrtc
    try:
        program = nvrtc.createProgram(text, "kernel.cu", (), ())
    except RuntimeError as missing:
        pytest.skip(f"NVRTC: pip install nvidia-cuda-nvrtc ({missing})")
    options = (*OPTIONS, "--device-as-default-execution-space", f"-arch=sm_{arch}", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(program, options)
    finally:
        log = nvrtc.getProgramLog(program)
    assert nvrtc.getCUBIN(program)[:4] == b"\x7fELF"
    nvrtc.destroyProgram(program)
    matches = {name: re.search(pattern, log) for name, pattern in _NUMBERS.items()}
    return Taken(**{name: int(match[1]) if match else 0 for name, match in matches.items()})
