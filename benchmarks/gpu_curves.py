"""Figures 2 and 3 of Yang, Wu and Pan on cards: what the kernel of long chains (CFA) would take. Predicted,
never run.

A chain's instructions are counted by running NVRTC's PTX in NumPy. A chain alone takes as long as its
busiest pipe for one warp in each partition, and at every barrier until shared memory has answered; many
chains take as long as the busiest pipe of the multiprocessors. Operations that wait for each other, launches
and copies are left out: real times are longer.
"""

import math
import sys
from pathlib import Path

import harness
import numpy as np
from gpu_cards import CARDS
from gpu_kernels import ARCH
from gpu_predict import PREDICTED

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

import ptx
from parallel_robots import chain, states

from dynamics_node.chains import RobotArrays
from dynamics_node.chains.chain_kernel import chain_kernel, laid_out
from dynamics_node.codegen.cuda.choice import QUARTERS, WARP, resident_warps
from dynamics_node.codegen.cuda.nvrtc import find_nvrtc

CARD = CARDS["H100"]
LINKS = (4, 8, 16, 32, 64, 128, 256)
GROUPS = {10: (1, 10, 100, 1000, 10_000, 100_000), 200: (1, 10, 100, 1000, 10_000, 100_000)}
A_BARRIER = 50  # cycles: shared memory answers, and all warps are told
OF_A_ROOT = 12  # float64 operations of a square root or a reciprocal
_FLOAT64 = ("fma.rn.f64", "mul.rn.f64", "add.rn.f64", "sub.rn.f64")
_MEMORY = ("ld.shared.f64", "st.shared.f64", "ld.global.nc.f64", "st.global.f64")
_NO_INSTRUCTION = ("neg.f64", "mov.f64", "bar.sync")  # signs of operands, registers


def counted(n):
    """Of one chain of n links: ptx.Report, registers, shared bytes, threads."""
    model, nvrtc = chain(n), find_nvrtc()
    robot, (q, qd, tau, _) = RobotArrays(model), states(model, 1)
    kernel = chain_kernel(n)
    sizes, arrays = laid_out(robot, np.dtype(float), q, qd, tau, model.gravity)
    memory = ptx.Memory()
    given = [*sizes, 1, *(memory.put(array) for array in arrays), memory.allocate(q.nbytes)]
    report = ptx.run(nvrtc.ptx(kernel.text, ARCH), kernel.name, 1, kernel.width, given, memory)
    return report, nvrtc.cubin(kernel.text, ARCH).kernels[kernel.name], kernel.width


def busiest(issued, processor):
    """Cycles of the busiest pipe for all warps of a chain, in one partition."""
    float64 = sum(issued[name] for name in _FLOAT64)
    float64 += OF_A_ROOT * (issued["sqrt.rn.f64"] + issued["rcp.rn.f64"])
    memory = 2 * sum(issued[name] for name in _MEMORY)  # 8 bytes a thread go in two parts
    issues = sum(issued.values()) - sum(issued[name] for name in _NO_INSTRUCTION)
    return max(processor.cycles["fp64"] * float64, processor.cycles["memory"] * memory, issues)


def seconds(n, groups, card=CARD):
    """{states: s} of chains of n links."""
    report, own, threads = counted(n)
    warps = math.ceil(threads / WARP)
    resident = max(1, resident_warps(card.processor, own.registers, threads, own.shared) // warps)
    cycles = busiest(report.issued, card.processor)
    alone = cycles / min(QUARTERS, warps) + A_BARRIER * report.barriers
    together = max(alone, resident * cycles / QUARTERS)
    rounds = {count: math.ceil(count / (card.multiprocessors * resident)) for count in groups}
    return {
        count: (alone if count <= card.multiprocessors else each * together) / (card.clock * 1e9)
        for count, each in rounds.items()
    }


def rows():
    for n in sorted({*LINKS, *GROUPS}):
        groups = sorted({*GROUPS.get(n, ()), *([1] if n in LINKS else [])})
        for count, found in seconds(n, groups).items():
            name = f"cfa kernel on {CARD.name}, {n} links, {count} states"
            yield harness.Row(name, None, "ms", "lower", "pipes and barriers", 1e3 * found, reason=PREDICTED)


def main():
    options = harness.arguments("gpu_curves").parse_args()
    versions = harness.versions("numpy", "nvidia-cuda-nvrtc")
    harness.finish("gpu_curves", list(rows()), versions, options.save, device=None)


if __name__ == "__main__":
    main()
