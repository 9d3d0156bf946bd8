"""The first state of a batch on the device without a result."""

import ctypes
from functools import cache

import numpy as np

from dynamics_node.codegen.cuda.driver import DevicePointer
from dynamics_node.codegen.cuda.opened import device
from dynamics_node.codegen.printer import Variant, head

NAME = "first_bad"
WORKERS = 8192  # threads, each of which looks at every so manieth state
_TEXT = """
KERNEL first_bad(const int workers, const long long states, const int stride,
                 const real *restrict numbers, long long *restrict found)
{
  EACH_BLOCK(workers) {
  EACH_THREAD {
    const int worker = BLOCK * WIDTH + THREAD;
    if (worker < workers) {
      long long first = -1;
      for (long long state = worker; state < states && first < 0; state += workers) {
        const real number = numbers[state * stride];
        if (number != number) first = state;
      }
      found[worker] = first;
    }
  }
  }
}
"""


def first_bad(compiler, dtype: np.dtype, count: int, address: int, stride: int, stream: int) -> int | None:
    """The number of the first of `count` states whose entry is NaN, None where there is none; entries lie
    `stride` numbers apart, the first at an address. compiler: NVRTC and an architecture. Waits for the
    stream. Inside `at_work`. Raises CompileError, CudaError."""
    image = _image(*compiler, dtype)
    there, workers = device(), min(WORKERS, count)
    found = np.empty(workers, np.int64)
    block = Variant().block
    place = there.memory(found.nbytes)
    try:
        arguments = [ctypes.c_int(workers), ctypes.c_longlong(count), ctypes.c_int(stride)]
        arguments += [DevicePointer(address), DevicePointer(place)]
        there.launch(there.function(image, NAME), -(-workers // block), block, arguments, stream)
        there.get(found.ctypes.data, place, found.nbytes, stream)
        there.wait(stream)
    finally:
        there.free("memory", place)
    return int(found[found >= 0].min()) if (found >= 0).any() else None


@cache
def _image(nvrtc, arch, dtype):
    text = "\n".join([*head(Variant(precision="float" if dtype == np.float32 else "double")), _TEXT])
    return nvrtc.cubin(text, arch).image
