"""The fake driver for tests: built, loaded, and its kernels run by the compiler of this machine.

A kernel's text is C behind macros: what the device would run as CUDA, the fake runs as C, the same
operations. An image is known by its bytes: `texts` says from which text it was compiled. One that
is PTX is run by NumPy, on the memory of the fake.
"""

import atexit
import ctypes
import hashlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import ptx

from dynamics_node.codegen.cuda import choice as sass
from dynamics_node.codegen.cuda import device as opened
from dynamics_node.codegen.cuda import driver, nvrtc

SOURCE = Path(__file__).with_name("fake_cuda.c")
LOST = 719  # CUDA_ERROR_LAUNCH_FAILED
OUT_OF_MEMORY = 2
CAPABILITY = 90
KINDS = {"memory": 1, "pinned": 2, "stream": 3, "event": 4, "module": 5}
_FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wstrict-prototypes",
    "-O1",
    "-fPIC",
    "-shared",
)
UBSAN = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined")
_KERNEL_FLAGS = ("-std=c99", "-O1", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-w", "-x", "c")
_DECLARED = re.compile(r"KERNEL (\w+)\(([^)]*)\)")
_WIDTH = re.compile(r"#define WIDTH (\d+)")
_FLOAT64 = re.compile(r"#define FLOAT64 (\d)")
_DESCRIBE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)
)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.c_uint,
    ctypes.c_uint,
    ctypes.POINTER(ctypes.c_void_p),
)


def headers() -> Path | None:
    """Folder of cuda.h, which comes with nvidia-cuda-runtime; None without it."""
    found = Path(sysconfig.get_paths()["purelib"], "nvidia/cu13/include")
    return found if (found / "cuda.h").is_file() else None


@cache
def library() -> Path:
    """libcuda.so.1 in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="fake_cuda"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "libcuda.so.1"
    _compile([*_FLAGS, *UBSAN, f"-I{headers()}", SOURCE, "-o", path, "-lpthread"])
    return path


def _compile(arguments):
    done = subprocess.run(["gcc", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PLENTY = nvrtc.Resources(64, 0, 0, 0, 0)


class Fake:
    """Controls of the fake. texts: {image: text}; faults: what went wrong in kernels, in words."""

    def __init__(self):
        self.path = library()
        self._library = ctypes.CDLL(str(self.path))
        self._library.fake_fail.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_int)
        self._library.fake_device.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_size_t)
        self._library.fake_calls.restype = ctypes.c_long
        self._library.fake_complaint.restype = ctypes.c_char_p
        self.texts: dict[bytes, str] = {}
        self.faults: list[str] = []
        self.launches: list[tuple[str, int, int]] = []
        self._kept = _DESCRIBE(self._describe), _LAUNCH(self._launch)
        self._library.fake_kernels(*self._kept)
        self.be()
        self.fail(-1)

    def be(self, version=13000, devices=1, capability=CAPABILITY, memory=2**33):
        """What kind of device there is."""
        self._library.fake_device(version, devices, capability, memory)

    def fail(self, k: int, error: int = LOST, lasts: bool = False):
        """The k-th call from now on (0: the next one; -1: none) fails, with all that follow it where it
        lasts."""
        self._library.fake_fail(k, error, lasts)

    @property
    def calls(self) -> int:
        """Since the last `fail`."""
        return self._library.fake_calls()

    @property
    def complaint(self) -> str:
        return self._library.fake_complaint().decode()

    @property
    def held(self) -> dict[str, int]:
        """{kind: number} of what nobody has given back, contexts among them."""
        found = {kind: self._library.fake_held(number) for kind, number in KINDS.items()}
        found["context"] = self._library.fake_retained()
        return {kind: number for kind, number in found.items() if number}

    @property
    def depth(self) -> int:
        """Contexts that this thread has on its stack."""
        return self._library.fake_depth()

    # --- kernels --------------------------------------------------------------------------------------------

    def _described(self, image, size, name):
        """(text, types of the parameters)"""
        text = self.texts[ctypes.string_at(image, size)]
        declared = dict(_DECLARED.findall(text))[name.decode()]
        real = ctypes.c_double if _FLOAT64.search(text)[1] == "1" else ctypes.c_float
        return text, [_type(part, real) for part in declared.split(",")]

    def _describe(self, image, size, name, sizes):
        try:
            _, types = self._described(image, size, name)
        except Exception as error:
            self.faults.append(repr(error))
            return -1
        for k, kind in enumerate(types):
            sizes[k] = ctypes.sizeof(kind)
        return len(types)

    def _launch(self, image, size, name, blocks, threads, parameters):
        """In C a kernel does all blocks by itself: their number is checked instead."""
        try:
            text, types = self._described(image, size, name)
            values = [kind.from_address(parameters[k]) for k, kind in enumerate(types)]
            count, width = values[0].value, int(_WIDTH.search(text)[1])
            assert threads == width, f"{threads} threads in a block that is for {width}"
            needed = -(-count // width)
            fits = 1 <= blocks <= needed if "scratch" in text else blocks == needed
            assert fits, f"{blocks} blocks of {width} for {count} states"
            self.launches.append((name.decode(), count, blocks))
            if ctypes.string_at(image, 2) == b"//":
                self._interpret(ctypes.string_at(image, size), name.decode(), blocks, threads, values)
            else:
                run = getattr(built(text), name.decode())
                run.argtypes, run.restype = types, None
                run(*values)
            return 0
        except Exception as error:
            self.faults.append(repr(error))
            return LOST

    def _interpret(self, image, name, blocks, threads, values):
        memory, k, at, size = ptx.Memory(), -1, ctypes.c_uint64(), ctypes.c_size_t()
        while (k := self._library.fake_memory(k + 1, ctypes.byref(at), ctypes.byref(size))) >= 0:
            content = np.ctypeslib.as_array((ctypes.c_uint8 * size.value).from_address(at.value))
            memory.adopt(at.value, content)
        ptx.run(image.rstrip(b"\0").decode(), name, blocks, threads, [v.value for v in values], memory)


def _type(declared, real):
    if "*" in declared:
        return ctypes.c_void_p
    if "long long" in declared:
        return ctypes.c_longlong
    return ctypes.c_int if "int " in declared else real


@cache
def built(text: str) -> ctypes.CDLL:
    """A kernel's text as C."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = (
            Path(folder, "kernel.c"),
            Path(folder, f"{hashlib.sha256(text.encode()).hexdigest()}.so"),
        )
        source.write_text(text)
        _compile([*_KERNEL_FLAGS, source, "-o", library, "-lm"])
        return ctypes.CDLL(str(library))


def cubin_of(text: str, name: str) -> bytes:
    """What the fake takes for a cubin: an ELF head that tells its size, the names of kernels, a hash of the
    text."""
    content = name.encode() + b"\0" + hashlib.sha256(text.encode()).digest()
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    head[40:48] = (64 + len(content)).to_bytes(
        8, "little"
    )  # where sections are told, of which there are none
    return bytes(head) + content


# of every kernel that was not compiled; a chain: with more warps it costs each of them less
CODE = [sass.Instruction("FFMA", "fma", 1, 4, sass.NO_BOARD, sass.NO_BOARD, 0)] * 64


class FakeNvrtc:
    """Takes texts for compiled. resources: told of every kernel."""

    version, archs = (13, 999), (75, 80, 90, 100, 120)
    arch_for = nvrtc.Nvrtc.arch_for

    def __init__(self, fake: Fake, resources=PLENTY):
        self._fake, self.resources = fake, resources
        self.compiled: list[str] = []

    def cubin(self, text, arch, options=()):
        names = [name for name, _ in _DECLARED.findall(text)]
        image = cubin_of(text, " ".join(names))
        self._fake.texts[image] = text
        self.compiled.append(text)
        return nvrtc.Cubin(image, {name: self.resources for name in names})


class Recorded:
    """NVRTC itself, whose cubins the fake knows; interpreted: its PTX in their place, which NumPy runs."""

    def __init__(self, fake: Fake, interpreted=False):
        self._interpreted = interpreted
        self._fake, self._nvrtc = fake, nvrtc.find_nvrtc()
        self.version, self.archs, self.arch_for = self._nvrtc.version, self._nvrtc.archs, self._nvrtc.arch_for

    def cubin(self, text, arch, options=()):
        cubin = self._nvrtc.cubin(text, arch, options)
        if self._interpreted:
            image = self._nvrtc.ptx(text, arch, options).encode() + b"\0"
            cubin = cubin._replace(image=image)
        self._fake.texts[cubin.image] = text
        return cubin


def installed(monkeypatch) -> Fake:
    """The fake in place of the driver and of NVRTC, until the test ends."""
    fake = Fake()
    opened.forget()
    monkeypatch.setattr(driver, "LIBRARY", str(fake.path))
    monkeypatch.setattr("dynamics_node.codegen.cuda.runner.find_nvrtc", lambda newest: FakeNvrtc(fake))
    monkeypatch.setattr("dynamics_node.codegen.cuda.choice.instructions", lambda image, kernel: CODE)
    return fake
