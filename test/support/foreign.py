"""Compiled Programs on other processors: a cross compiler makes them programs, which qemu runs.

`runs_on` puts such programs in place of libraries: Kernel and BatchKernel are those of users, but for the call.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import NamedTuple

import compilers
import numpy as np

from dynamics_node.codegen.c import batch_kernel, kernel, library
from dynamics_node.codegen.c.compiler import FLAGS
from dynamics_node.codegen.c.render_straight import text_of

MAIN = Path(__file__).with_name("foreign.c").read_text()
FLAGS_OF_LIBRARIES = ("-fPIC", "-shared", "-Wl,-z,now")
ROWS = "#define SOLVE(from, to, count, given, same) solved_rows(0, count, given, same)\n"
BATCH = """#define PARAMETER_SIZE 0
#define SOLVE solve_batch
static long solve_batch(long from, long to, long count, const Numbers *given, const int *same)
{
  const number *input[INPUTS + 1];
  number *output[OUTPUTS + 1];
  for (int k = 0; k < INPUTS; ++k) input[k] = given[k].data;
  for (int k = 0; k < OUTPUTS; ++k) output[k] = given[INPUTS + k].data;
  return batch(from, to, count, input, same, output);
}
"""


class Processor(NamedTuple):
    """compiler, emulator: their names."""

    compiler: str
    emulator: str

    def fault(self):
        """Why nothing can be tried on it, None where it can."""
        reason = compilers.fault(self.compiler, "-static", under=(self.emulator,))
        return reason and f"{reason}; .ci/cross installs what it needs"


PROCESSORS = {
    "aarch64": Processor("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "riscv64": Processor("riscv64-linux-gnu-gcc", "qemu-riscv64"),
}


class Foreign:
    """A function of a compiled Program, (from, to, count, *inputs, *outputs), that an emulator runs."""

    def __init__(self, command, inputs, outputs, dtype, shift, parameters=()):
        self.command, self.shift, self.parameters = command, shift, np.array(parameters, dtype)
        self.inputs, self.outputs, self.dtype = list(inputs), list(outputs), np.dtype(dtype)

    def __call__(self, start, stop, count, *arrays):
        """As run_batch of batch_call.c."""
        inputs, outputs = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
        if not all(self._fits(a, [(count, *s), s]) for a, s in zip(inputs, self.inputs, strict=True)):
            return -1
        if not all(self._fits(a, [(count, *s)]) for a, s in zip(outputs, self.outputs, strict=True)):
            return -1
        same = [array.shape == shape for array, shape in zip(inputs, self.inputs, strict=True)]
        head = np.array([start, stop, count, self.shift, *same], np.int64)
        sent = b"".join(array.tobytes() for array in (head, self.parameters, *inputs))
        answer = subprocess.run(self.command, input=sent, capture_output=True, check=True).stdout
        good, at = int(np.frombuffer(answer, np.int64, 1)[0]), 8
        for array in outputs:
            values = np.frombuffer(answer, self.dtype, array.size, at).reshape(array.shape)
            array[start:stop] = values[start:stop]
            at += array.nbytes
        return good

    def _fits(self, array, shapes):
        plain = isinstance(array, np.ndarray) and array.dtype == self.dtype and array.dtype.isnative
        return plain and array.flags.c_contiguous and array.flags.aligned and array.shape in shapes


def runs_on(processor, folder, monkeypatch, shift=0, more=()):
    """Compile and run for a processor from now on; shift: numbers between arrays and a multiple of 64 bytes; more:
    flags."""

    def compile_first(ways, *_):
        way = next(iter(ways.values()))
        flags = [
            flag for flag in (*FLAGS, *way.flags) if flag not in FLAGS_OF_LIBRARIES and "tune" not in flag
        ]
        flags += [*more, "-static"]
        text = way.source().replace(text_of("instances.c"), "")  # of Python alone
        text += (BATCH if "run_batch" in text else ROWS) + MAIN
        path = folder / hashlib.sha256(f"{processor}{flags}{text}".encode()).hexdigest()
        if not path.exists():
            source = path.with_suffix(".c")
            source.write_text(text)
            command = [processor.compiler, *flags, "-o", path, source, "-lm"]
            subprocess.run(list(map(str, command)), check=True)
        return str(path)

    def open_kernel(own, path):
        own._library, own._entry = path, None
        own._wrap()

    def wrap(own):
        arrays = own.inputs.values(), own.outputs.values()
        command = [processor.emulator, own._library]
        function = Foreign(command, *arrays, np.float64, shift, own._parameters[:-1])
        own._rows = lambda count, *arrays: function(0, count, count, *arrays)
        own.call_one, own.call_new = (lambda *arrays: False), (lambda result, *inputs: None)

    def open_batch(own, path):
        own._library = path
        command = [processor.emulator, path]
        own._run = Foreign(command, own.program.inputs.values(), own._shapes, own.dtype, shift)

    for module in (kernel, batch_kernel):
        monkeypatch.setattr(module, "compile_fastest", compile_first)
    monkeypatch.setattr(kernel, "open_library", lambda path: path)
    monkeypatch.setattr(library, "open_library", lambda path: path)
    monkeypatch.setattr(kernel.Kernel, "_open", open_kernel)
    monkeypatch.setattr(kernel.Kernel, "_wrap", wrap)
    monkeypatch.setattr(kernel.Kernel, "called_at_once", lambda own, cls: cls)
    monkeypatch.setattr(batch_kernel.BatchKernel, "_open", open_batch)
