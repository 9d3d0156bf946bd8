"""The text of a kernel compiled as C and called with NumPy arrays: the reference for other backends."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from compilers import fault

FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Werror", "-ffp-contract=off", "-fPIC", "-shared")
FUSED = "-mfma"  # otherwise a slow library function computes the same result
# A block after the other; its threads take turns from barrier to barrier, the last one first where `backward`.
# Arguments are ints and pointers.
COROUTINES = """
static struct { %(fields)s } call;
static int ended;

static void one_thread(void)
{
  %(name)s(%(values)s);
  ++ended;
}

void by_coroutines(int blocks, int backward, %(arguments)s)
{
  static char stacks[WIDTH][1 << 16];
  %(copies)s
  for (BLOCK = 0; BLOCK < blocks; ++BLOCK) {
    for (int k = 0; k < WIDTH; ++k) {
      getcontext(block_threads + k);
      block_threads[k].uc_stack.ss_sp = stacks[k];
      block_threads[k].uc_stack.ss_size = sizeof stacks[k];
      block_threads[k].uc_link = &between_turns;
      makecontext(block_threads + k, one_thread, 0);
    }
    for (ended = 0; ended < WIDTH;) {
      for (int k = 0; k < WIDTH; ++k) {
        THREAD = backward ? WIDTH - 1 - k : k;
        swapcontext(&between_turns, block_threads + THREAD);
      }
    }
  }
}
"""


@cache
def compiled(text, name, *flags):
    """A function of C source, as ctypes has it."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "states.c", Path(folder) / "states.so"
        source.write_text(text)
        fused = [FUSED] * (fault("cc", FUSED) is None)
        subprocess.run(["cc", *FLAGS, *fused, *flags, source, "-o", library, "-lm"], check=True)
        function = ctypes.CDLL(str(library))[name]
    function.restype = None
    return function


@cache
def built(kernel, *more):
    """Function of a Kernel: (count, inputs, shapes of the outputs) -> {name: array (count, *shape)}.

    inputs: {name: array (count, *shape), or (*shape) if the same for all states}.
    """
    function = compiled(kernel.text, kernel.name, *more)
    return lambda count, inputs, outputs: _called(function, kernel, count, inputs, outputs)


def by_coroutines(text, name, blocks, arguments, backward=False):
    """Run a kernel whose arguments are ints and pointers, as ctypes has them; backward: the last thread of a block goes
    first. Where barriers separate what threads write and read, their order does not matter."""
    kinds = ["int" if isinstance(argument, ctypes.c_int) else "void *" for argument in arguments]
    call = COROUTINES % {
        "name": name,
        "fields": " ".join(f"{kind} a{k};" for k, kind in enumerate(kinds)),
        "values": ", ".join(f"call.a{k}" for k in range(len(kinds))),
        "arguments": ", ".join(f"{kind} b{k}" for k, kind in enumerate(kinds)),
        "copies": " ".join(f"call.a{k} = b{k};" for k in range(len(kinds))),
    }
    function = compiled(f"#define COROUTINES\n{text}{call}", "by_coroutines", "-O0")
    function(blocks, int(backward), *arguments)


def _called(function, kernel, count, inputs, outputs):
    arguments, written = given(kernel, count, inputs)
    function(*map(as_c, arguments))
    columns = kernel.variant.layout == "columns"
    return {
        name: (array.T if columns else array).reshape(count, *outputs[name])
        for name, array in written.items()
    }


def given(kernel, count, inputs):
    """All arguments of a launch as numbers and arrays of NumPy, and {output: array} among them."""
    dtype, columns = kernel.variant.dtype, kernel.variant.layout == "columns"
    arguments, written = [], {}
    for argument in kernel.arguments:
        if argument.kind == "count":
            arguments.append(np.int32(count))
        elif argument.kind == "number":
            arguments.append(dtype.type(np.ravel(inputs[argument.name])[argument.position]))
        elif argument.kind == "output":
            shape = (argument.size, count) if columns else (count, argument.size)
            written[argument.name] = np.full(shape, 7.0, dtype)
            arguments.append(written[argument.name])
        else:
            array = np.asarray(inputs[argument.name], dtype).reshape(-1, argument.size)
            arguments.append(np.ascontiguousarray(array.T if columns else array))
    return arguments, written


def as_c(argument):
    """A number or an array of NumPy as an argument of ctypes; the array has to live as long as the call."""
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return {np.int32: ctypes.c_int, np.float32: ctypes.c_float, np.float64: ctypes.c_double}[type(argument)](
        argument
    )
