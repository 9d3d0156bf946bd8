"""CUDA C text -> cubin or PTX by NVRTC, NVIDIA's compiler as a library. It needs neither driver nor device.

The library comes with the wheel nvidia-cuda-nvrtc (CUDA 13), nvidia-cuda-nvrtc-cu12, or a CUDA toolkit. A
cubin of one release runs under every driver of the same major version, a PTX text only under one that is as
new: cubins are what is loaded and kept.
"""

import ctypes
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.errors import CompileError

MAJORS = (13, 12)
OPTIONS = ("-fmad=false",)  # what is fused the text says itself, so that results are the same everywhere
_WHEELS = {13: "cu13/lib", 12: "cuda_nvrtc/lib"}  # folders in the namespace package nvidia
_PACKAGES = {13: "nvidia-cuda-nvrtc", 12: "nvidia-cuda-nvrtc-cu12"}
_TOLD = "--ptxas-options=-v"
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
}


class Resources(NamedTuple):
    """What one thread of a kernel takes: registers, bytes of the stack, bytes that registers are spilled to
    and loaded from; shared: bytes of static shared memory of a block."""

    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    stack: int


class Cubin(NamedTuple):
    """image: for `Device.function`; kernels: {name: Resources}."""

    image: bytes
    kernels: dict[str, Resources]


class Nvrtc:
    """One library. version: (major, minor); archs: compute capabilities it knows, as 90 for sm_90."""

    def __init__(self, path: str):
        """Raises OSError."""
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._call("Version", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value
        self._call("GetNumSupportedArchs", ctypes.byref(count))
        archs = (ctypes.c_int * count.value)()
        self._call("GetSupportedArchs", archs)
        self.archs = tuple(archs)

    def _call(self, name, *arguments):
        """Raises CompileError."""
        if code := getattr(self._library, f"nvrtc{name}")(*arguments):
            told = self._library.nvrtcGetErrorString(code).decode()
            raise CompileError(f"NVRTC {name}: {told}")

    def arch_for(self, capability: int) -> int:
        """The newest architecture whose cubins run on a device of a compute capability (90 for 9.0): the same
        major version, the minor not above. Raises CompileError."""
        fitting = [arch for arch in self.archs if arch // 10 == capability // 10 and arch <= capability]
        if not fitting:
            known = ", ".join(map(str, self.archs))
            told = f"NVRTC {self.version[0]}.{self.version[1]} compiles for {known}"
            raise CompileError(f"{told}, not for compute capability {capability / 10:.1f} of this device")
        return max(fitting)

    def cubin(self, text: str, arch: int, options: Sequence[str] = ()) -> Cubin:
        """From the cache, or compiled and kept there. Raises CompileError with the compiler's first error."""
        options = (*OPTIONS, *options)
        name = _entry_name(text, arch, self.version, options)
        kept = _read(name)
        if kept is None:
            kept = self._compiled(text, arch, options)
            with suppress(CompileError):  # no place to keep it: it is compiled again next time
                write_entry(name, _packed(kept))
        return kept

    def ptx(self, text: str, arch: int, options: Sequence[str] = ()) -> str:
        """The intermediate text, for those who read or interpret it. Raises CompileError."""
        with self._program(text) as program:
            self._compile(program, f"-arch=compute_{arch}", *OPTIONS, *options)
            return self._taken(program, "PTX").rstrip(b"\0").decode()

    def _compiled(self, text, arch, options):
        with self._program(text) as program:
            self._compile(program, f"-arch=sm_{arch}", _TOLD, *options)
            return Cubin(self._taken(program, "CUBIN"), resources(self._log(program)))

    @contextmanager
    def _program(self, text) -> Iterator[ctypes.c_void_p]:
        program = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        try:
            yield program
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _compile(self, program, *options):
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if self._library.nvrtcCompileProgram(program, len(options), given):
            lines = self._log(program).strip().splitlines() or ["no reason given"]
            reason = next((line for line in lines if "error" in line), lines[-1])
            raise CompileError(f"NVRTC failed: {reason.strip()}")

    def _log(self, program):
        return self._taken(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")

    def _taken(self, program, what):
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, buffer)
        return buffer.raw


def find_nvrtc(newest: int = MAJORS[0]) -> Nvrtc:
    """The library of the highest major version up to `newest`, which is that of the driver. Raises
    CompileError that says what to install."""
    for major in MAJORS:
        if major <= newest and (library := _opened(major)) is not None:
            return library
    package = _PACKAGES.get(newest, _PACKAGES[MAJORS[0]])
    told = f"no NVRTC of CUDA {newest} or older" if newest < MAJORS[0] else "no NVRTC, the compiler of CUDA"
    raise CompileError(f"{told}: pip install {package}" + " (extra `cuda`)" * (newest >= MAJORS[0]))


@cache
def _opened(major) -> Nvrtc | None:
    for path in _places(major):
        with suppress(OSError):
            return Nvrtc(path)
    return None


def _places(major):
    """Where the library may be: wheels, toolkits, the paths of the loader."""
    name = f"libnvrtc.so.{major}"
    package = find_spec("nvidia")
    for folder in (package and package.submodule_search_locations) or ():
        yield str(Path(folder, _WHEELS[major], name))
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root and Path(root).is_absolute():
            yield str(Path(root, "lib64", name))
    yield name


def resources(log: str) -> dict[str, Resources]:
    """{kernel: Resources} of what NVRTC says of its work."""
    names_and_parts = _ENTRY.split(log)[1:]
    parts = zip(names_and_parts[::2], names_and_parts[1::2], strict=True)
    return {
        name: Resources(**{key: _number(pattern, part) for key, pattern in _NUMBERS.items()})
        for name, part in parts
    }


def _number(pattern, text):
    found = pattern.search(text)
    return int(found[1]) if found else 0


# --- the cache ----------------------------------------------------------------------------------------------


def _entry_name(text, arch, version, options):
    parts = hashlib.sha256(repr((arch, version, tuple(options))).encode() + b"\0" + text.encode())
    return f"{parts.hexdigest()}.cubin"


def _packed(cubin):
    """A line of JSON, then the image."""
    return (
        json.dumps({name: list(numbers) for name, numbers in cubin.kernels.items()}).encode()
        + b"\n"
        + cubin.image
    )


def _read(name) -> Cubin | None:
    try:
        content = read_entry(name)
    except CompileError:  # no folder to be trusted
        return None
    if content is None:
        return None
    head, _, image = content.partition(b"\n")
    return Cubin(image, {name: Resources(*numbers) for name, numbers in json.loads(head).items()})
