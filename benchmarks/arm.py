"""Cycles of batches on ARM processors as llvm-mca predicts them, without one of them.

qemu runs a batch instruction by instruction; what one vector of states executes is given to llvm-mca as a
loop. Caches and branches are perfect there.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from robots import random_states, robot

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c.batch_kernel import render_batch
from dynamics_node.codegen.c.compiler import FLAGS, FOR_VECTORS
from dynamics_node.codegen.runner import PRECISIONS

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from foreign import BATCH, FLAGS_OF_LIBRARIES, MAIN

# Core: (of the compiler, of llvm-mca, GHz). Older ones of either do not have every core, but its next of kin.
CORES = {
    "Cortex-A76": ("cortex-a76", "neoverse-n1", 2.4),
    "Neoverse V2": ("neoverse-n2", "neoverse-v2", 3.0),
}
BYTES = 16  # of a vector
COUNT = 48  # states


def executed(program, states, dtype, core, folder):
    """The instructions that one vector of states takes."""
    path = Path(folder, "batch")
    path.with_suffix(".c").write_text(render_batch(program, PRECISIONS[np.dtype(dtype)]) + BATCH + MAIN)
    flags = [flag for flag in (*FLAGS, *FOR_VECTORS) if flag not in FLAGS_OF_LIBRARIES]
    command = ["aarch64-linux-gnu-gcc", *flags, f"-mcpu={core}", "-static", "-o", path, f"{path}.c", "-lm"]
    subprocess.run(list(map(str, command)), check=True)
    text = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True
    )
    lines = dict(re.findall(r"^ +([0-9a-f]+):\t(.*?)(?: //.*)?$", text.stdout, re.M))
    head = np.array([0, COUNT, COUNT, 0, *([0] * len(states))], np.int64)
    sent = b"".join(array.tobytes() for array in (head, *states))
    log = Path(folder, "log")
    command = ["qemu-aarch64", "-singlestep", "-d", "exec,nochain", "-D", str(log), str(path)]
    subprocess.run(command, input=sent, stdout=subprocess.DEVNULL, check=True)
    trace = [address.lstrip("0") for address in re.findall(r"\[[0-9a-f]+/([0-9a-f]+)/", log.read_text())]
    return [lines[address] for address in _one_vector(trace, COUNT * np.dtype(dtype).itemsize // BYTES)]


def _one_vector(trace, vectors):
    """A part of the trace between two of the passes through what is executed once a vector."""
    times = {address: 0 for address in trace}
    for address in trace:
        times[address] += 1
    places = {}
    for k, address in enumerate(trace):
        if times[address] == vectors:
            places.setdefault(address, []).append(k)
    lengths = {
        address: b - a for address, own in places.items() for a, b in list(pairwise(own))[vectors // 2 :][:1]
    }
    head = max(lengths, key=lengths.__getitem__)
    first = places[head][vectors // 2]
    return trace[first : first + lengths[head]]


def cycles(instructions, model, tool):
    """Of one run through instructions that repeat."""
    plain = [
        re.sub(r"<.*>", "", line) for line in instructions if not line.startswith(("b", "cb", "tb", "ret"))
    ]
    plain = [line for line in plain if not re.match(r"(adrp|ldr)\t\w+, [0-9a-f]{5,}", line)]
    command = [
        tool,
        "-mtriple=aarch64",
        f"-mcpu={model}",
        "-iterations=20",
        "-instruction-info=0",
        "-resource-pressure=0",
    ]
    done = subprocess.run(command, input="\n".join(plain), capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles: +(\d+)", done.stdout)[1]) / 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mca", default="llvm-mca-19", help="the program, of LLVM 18 or newer")
    tool = parser.parse_args().mca
    model = robot("panda")
    for kind in ("inverse", "forward"):
        program = cheapest(dynamics_programs(model, getattr(dn, f"{kind}_dynamics")(model)))[1]
        for dtype in (np.float64, np.float32):
            states = [array.astype(dtype) for array in random_states(model, COUNT)]
            states.append(np.tile(model.gravity.astype(dtype), (COUNT, 1)))
            for core, (of_compiler, of_mca, gigahertz) in CORES.items():
                with tempfile.TemporaryDirectory() as folder:
                    instructions = executed(program, states, dtype, of_compiler, folder)
                each = cycles(instructions, of_mca, tool) * np.dtype(dtype).itemsize / BYTES
                name = f"panda {kind} {np.dtype(dtype)} on {core}"
                time = f"{each:.0f} cycles a state predicted, {each / gigahertz:.0f} ns at {gigahertz} GHz"
                print(f"{name}: {len(instructions)} instructions a vector, {time}")


if __name__ == "__main__":
    main()
