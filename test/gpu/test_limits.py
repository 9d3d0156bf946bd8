"""Kernels do not grow unseen: registers, spills, shared memory and instructions, compiled for real, beside
a table.

`python benchmarks/gpu.py --limits` writes the table anew, for a change that is meant.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest
from with_nvrtc import nvrtc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("pinocchio", reason="robots: pip install example-robot-data pin")

import gpu_limits
from gpu_kernels import PRECISIONS, PROBLEMS, ROBOTS
from gpu_sass import NoDisassembler, find_nvdisasm

NVRTC = nvrtc()
VERSION, LIMITS = gpu_limits.read()
if NVRTC.version != VERSION:
    pytest.skip(
        f"the table is of NVRTC {VERSION}, this is {NVRTC.version}: counts differ", allow_module_level=True
    )
try:
    find_nvdisasm()
except NoDisassembler as absent:
    pytest.skip(str(absent), allow_module_level=True)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name.replace(" ", "-"))
def test_a_kernel_takes_no_more_than_it_did(limit):
    grown = gpu_limits.grown(limit)
    assert not grown, f"{limit.name}: {', '.join(grown)}"


def test_the_table_is_of_all_kernels():
    of = Counter(
        (limit.case.robot, limit.case.problem, limit.case.precision) for limit in LIMITS if limit.arch == 90
    )
    assert set(of) == {(r, p, precision) for r in ROBOTS for p in PROBLEMS for precision in PRECISIONS}
    assert {limit.arch for limit in LIMITS} == {80, 90, 100, 120}
    assert {(limit.case, limit.arch) for limit in LIMITS} == set(gpu_limits.cases())


def test_the_checker_finds_what_has_grown():
    """A table with less than a kernel takes, one count after the other; one that once spilled nothing."""
    limit = next(limit for limit in LIMITS if limit.counts["spilled"])
    for what in ("registers", "spilled", "sass"):
        less = limit._replace(counts=limit.counts | {what: int(limit.counts[what] / 1.05)})
        assert [text.split()[0] for text in gpu_limits.grown(less)] == [what]
    nothing = limit._replace(counts=limit.counts | {"spilled": 0})
    assert gpu_limits.grown(nothing)[0].startswith("spilled 0 -> ")
