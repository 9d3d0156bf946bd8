"""The table of what kernels take on every architecture: registers, spills, shared memory, instructions."""

import json
from pathlib import Path
from typing import NamedTuple

from gpu_kernels import LONG, PRECISIONS, PROBLEMS, ROBOTS, Case, Way, chosen, compiled

from dynamics_node.codegen.cuda.nvrtc import find_nvrtc

TABLE = Path(__file__).parents[1] / "test" / "gpu" / "limits.json"
GROWTH = 1.03  # above that a kernel has grown


class Limit(NamedTuple):
    """A kernel as it was when the table was written."""

    case: Case
    arch: int
    way: Way
    counts: dict[str, int]

    @property
    def name(self):
        return f"{self.case.name} sm_{self.arch}"


def cases():
    """(Case, arch) of the table: all kernels for compute capability 9.0, the smaller ones for others."""
    for robot in ROBOTS:
        for problem in PROBLEMS:
            yield from ((Case(robot, problem, precision), 90) for precision in PRECISIONS)
            yield Case(robot, problem, "float", "rows"), 90
    yield Case(LONG, "forward", "float"), 90
    for arch in (80, 100, 120):
        yield from ((Case("panda", problem, "float"), arch) for problem in PROBLEMS)
        yield Case("solo12", "forward", "float"), arch
    for arch in (80, 100):
        yield from ((Case("panda", problem, "double"), arch) for problem in PROBLEMS)


def counts(limit):
    """What the kernel takes now. Raises CompileError."""
    return compiled(limit.case, limit.way, limit.arch).counts


def grown(limit, now):
    """Of what the kernel takes more now, as texts `registers 64 -> 72`."""
    return [
        f"{what} {most} -> {now[what]}" for what, most in limit.counts.items() if now[what] > GROWTH * most
    ]


def read():
    """((major, minor) of the NVRTC that compiled, Limits)."""
    content = json.loads(TABLE.read_text())
    limits = [
        Limit(Case(*row["case"]), row["arch"], Way(*row["way"]), row["counts"]) for row in content["kernels"]
    ]
    return tuple(content["nvrtc"]), limits


def write():
    """The table anew: with the ways that the backend takes now."""
    rows = []
    for case, arch in cases():
        way = chosen(case, arch)
        limit = Limit(case, arch, way, compiled(case, way, arch).counts)
        rows.append({"case": list(case), "arch": arch, "way": list(way), "counts": limit.counts})
        print(f"{limit.name}, {way.name}: {limit.counts}", flush=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    TABLE.write_text(f'{{"nvrtc": {list(find_nvrtc().version)}, "kernels": [\n  {lines}\n]}}\n')
    print(f"written: {TABLE}")
