"""Exported C against Pinocchio's C++ core and C that CasADi generates from it; size, stack, microcontrollers.

Medians of thread CPU time in loops over random states, in C, on one pinned core, all in one run; C with -O3
-march=native, as the peers. Microcontrollers are QEMU's boards: instructions of a call, by -icount shift=0.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import numpy as np
import peers
from dynamics import STATES, attempt, microseconds, pinocchio_model
from robots import random_states, robot

import dynamics_node as dn
from dynamics_node.functions import export_functions

SUPPORT = Path(__file__).resolve().parents[1] / "test" / "support"
FLAGS = (
    "-O3",
    "-march=native",
    "-std=c99",
    "-ffp-contract=fast",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
)
FUNCTIONS = {  # {name: (peer, number of results)}
    "inverse_dynamics": ("rnea", 1),
    "forward_dynamics": ("aba", 1),
    "inverse_dynamics_derivatives": ("drnea", 3),
    "forward_dynamics_derivatives": ("daba", 3),
}
LOOP = """#include "{name}.h"
void loop(long count, const double *q, const double *v, const double *u, double *out);
void loop(long count, const double *q, const double *v, const double *u, double *out)
{{
  for (long k = 0; k < count; ++k) {name}(q + k * {nq}, v + k * {nv}, u + k * {nv}, {places});
}}
"""
TARGET = {"panda": 0.5, "talos": 1.0}
CORES = {  # of QEMU: board, flags, precision, instructions of a first print to beat
    "Cortex-M4F, single": ("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16"), "float32", 1950),
    "Cortex-M7, single": ("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16"), "float32", 1315),
    "Cortex-M7, double": ("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-d16"), "float64", 2215),
}
CALLED = """void called(int k);
void called(int k) {{ {real} tau[7]; {name}(q_of[k], qd_of[k], qdd_of[k], tau); }}
"""


def run(*command):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def compiled(name, quantity, folder):
    """(loop over states, size of the code in bytes, stack in bytes) of an exported function."""
    model = robot(name)
    export_functions([dn.build(model, quantity, backend="numpy")], folder, name="x")
    own, nv = f"x_{quantity}", model.nv
    if FUNCTIONS[quantity][1] == 1:
        places = f"out + k * {nv}"
    else:
        places = ", ".join(f"out + {k * nv * nv}" for k in range(3))
    Path(folder, "loop.c").write_text(LOOP.format(name=own, nq=model.nq, nv=nv, places=places))
    run("cc", *FLAGS, "-fstack-usage", "-c", f"{folder}/{own}.c", "-o", f"{folder}/own.o")
    run("cc", *FLAGS, "-shared", f"{folder}/loop.c", f"{folder}/own.o", "-o", f"{folder}/own.so", "-lm")
    stack = max(int(line.split("\t")[1]) for line in Path(folder, "own.su").read_text().splitlines())
    return ctypes.CDLL(f"{folder}/own.so").loop, code_size(f"{folder}/own.o"), stack


def code_size(path):
    """Bytes of the section .text."""
    return int(re.search(r"^\.text\s+(\d+)", run("size", "-A", path), re.M)[1])


def loop_time(call, model, quantity):
    """us per state of call(count, q, qd, u, out)."""
    states = [np.ascontiguousarray(array) for array in random_states(model, STATES)]
    out = np.empty(max(STATES * model.nv, 3 * model.nv**2))
    return microseconds(lambda _: call(*states, out), 60) / STATES


def on_this_processor(name):
    """Rows of a robot."""
    theirs, model = pinocchio_model(name), robot(name)
    core, reason = attempt(lambda: peers.pinocchio_core(theirs))
    generated, without = None, "compiled for the Panda alone: that of Talos takes minutes"
    if name == "panda":
        generated, without = attempt(lambda: peers.casadi_functions(theirs, name))
    for quantity, (peer, _) in FUNCTIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            loop, size, stack = compiled(name, quantity, folder)

            def call(q, qd, u, out, loop=loop):
                addresses = (ctypes.c_void_p(array.ctypes.data) for array in (q, qd, u, out))
                loop(ctypes.c_long(len(q)), *addresses)

            ours = loop_time(call, model, quantity)
            label = f"{name} {quantity}"
            yield harness.Row(
                label,
                ours,
                "us",
                "lower",
                f"C++ {peer}",
                core and core[peer],
                target=TARGET[name],
                reason=reason,
            )
            value = generated and loop_time(generated[peer], model, quantity)
            yield harness.Row(
                label, ours, "us", "lower", f"CasADi C of {peer}", value, target=1.0, reason=without
            )
            yield harness.Row(f"{label}, code", size, "B", "lower")
            yield harness.Row(f"{label}, stack", stack, "B", "lower")


def on_microcontrollers():
    """Rows of the Panda's inverse dynamics, without libm."""
    name, inverse = "panda_inverse_dynamics", dn.build(robot("panda"), "inverse_dynamics", backend="numpy")
    for core, (board, flags, precision, first) in CORES.items():
        label = f"panda inverse_dynamics, {core}"
        if missing := [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if not shutil.which(tool)]:
            yield harness.Row(
                label, None, "instructions", "lower", reason=f"no {', '.join(missing)}: .ci/cross"
            )
            continue
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            inverse.export(folder, precision=precision, libm=False, name="panda")
            real = {"float32": "float", "float64": "float64"}[precision]
            states = (folder / "test" / f"{name}_test.c").read_text().partition(f"static {real} size")[0]
            (folder / "call.c").write_text(states + CALLED.format(real=real, name=name))
            cc = (
                "arm-none-eabi-gcc",
                *flags,
                "-mthumb",
                "-mfloat-abi=hard",
                "-O2",
                "-ffp-contract=fast",
                "-std=c99",
                f"-I{folder}",
            )
            run(*cc, "-fstack-usage", "-c", folder / f"{name}.c", "-o", folder / "own.o")
            started = (
                "-DCOUNTED",
                "--specs=rdimon.specs",
                "-T",
                SUPPORT / "cortex_m.ld",
                SUPPORT / "cortex_m.c",
            )
            run(*cc, *started, folder / "own.o", folder / "call.c", "-o", folder / "counted")
            qemu = ("qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-icount", "shift=0")
            count = int(run(*qemu, "-kernel", folder / "counted"))
            yield harness.Row(label, count, "instructions", "lower", "first print", first, target=1.0)
            yield harness.Row(f"{label}, code", code_size(folder / "own.o"), "B", "lower")
            stacks = [int(line.split("\t")[1]) for line in (folder / "own.su").read_text().splitlines()]
            yield harness.Row(f"{label}, stack", sum(sorted(stacks)[-2:]), "B", "lower")


def main():
    options = harness.arguments("export").parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = list(on_microcontrollers())
    for name in TARGET:
        rows += on_this_processor(name)
        print(name, flush=True, file=sys.stderr)
    harness.finish("export", rows, harness.versions("pin", "casadi", "numpy"), options.save)


if __name__ == "__main__":
    main()
