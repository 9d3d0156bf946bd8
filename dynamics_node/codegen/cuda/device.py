"""The CUDA device of this process, by CuPy: whether there is one, what is compiled for it, and its loss.

An error of CUDA other than a lack of memory ends the use of the device in this process, for such errors leave
a context that answers nothing.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from dynamics_node.errors import CompileError, DeviceError
from dynamics_node.optional import install_command

log = logging.getLogger("dynamics_node")

OPTIONS = ("-fmad=false",)  # what is fused the text says itself, so that results are the same everywhere
OUT_OF_MEMORY = 2  # of CUDA's errors
_lost: list[str] = []  # why, once it is lost
_warned: set[str] = set()


def cupy_module() -> Any:
    """CuPy. Raises DeviceError: it is not installed, or has no device."""
    try:
        import cupy

        available = cupy.cuda.is_available()
    except ImportError as error:
        raise DeviceError(f"backend cuda runs by CuPy: {_installation()} ({error})") from None
    except RuntimeError as error:
        raise DeviceError(f"backend cuda: {error}") from None
    if not available:
        raise DeviceError("backend cuda: no CUDA device; nvidia-smi lists those of the driver")
    return cupy


def _installation():
    """What installs CuPy and CUDA's libraries."""
    return f"{install_command('cupy-cuda13x[ctk]')} ('cupy-cuda12x[ctk]' for drivers before 580)"


def lost() -> str | None:
    """Why the device of this process is lost, None while it is not."""
    return _lost[0] if _lost else None


@contextmanager
def at_work() -> Iterator[Any]:
    """CuPy, for work on the device. Raises DeviceError where there is no device or it is lost, CompileError,
    MemoryError."""
    if _lost:
        raise DeviceError(f"the GPU is lost since {_lost[0]}")
    cupy = cupy_module()
    try:
        yield cupy
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if error.status == OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error
        if not _lost:
            _lost.append(str(error))
            log.error("the GPU is lost, and the CPU goes on: %s", error)
        raise DeviceError(f"the GPU is lost: {error}") from error


@cache
def compiled(text: str, name: str) -> Any:
    """A kernel, compiled for the current device by NVRTC, or from CuPy's cache. Raises CompileError. Inside
    `at_work`."""
    cupy = cupy_module()
    kernel = cupy.RawKernel(text, name, OPTIONS)
    try:
        kernel.compile()
    except cupy.cuda.compiler.CompileException as error:
        lines = str(error).strip().splitlines()
        reason = next((line for line in lines if "error" in line), lines[-1])
        raise CompileError(f"NVRTC failed: {reason.strip()}") from None
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # one of CUDA's
            raise
        raise CompileError(f"no NVRTC, the compiler of CUDA: {_installation()} ({error})") from None
    return kernel


@cache
def streams() -> tuple[Any, Any]:
    """Two, for pieces of batches. They live as long as the process: CuPy keeps memory by stream."""
    stream = cupy_module().cuda.Stream
    return stream(non_blocking=True), stream(non_blocking=True)


def warn_once(text: str):
    """A warning, in a process once."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)
