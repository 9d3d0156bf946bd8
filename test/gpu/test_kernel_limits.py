"""Kernels do not grow unseen: registers, spills, shared memory and instructions, compiled for real, beside
a table.

`python benchmarks/gpu.py --limits` writes the table anew, for a change that is meant.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest
from with_nvrtc import nvrtc, without

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("pinocchio", reason="robots: pip install example-robot-data pin")

import gpu_limits
from gpu_kernels import LONG, PRECISIONS, PROBLEMS, ROBOTS

NVRTC = nvrtc()
VERSION, LIMITS = gpu_limits.read()
if NVRTC.version != VERSION:
    without(f"the table is of NVRTC {VERSION}, this is {NVRTC.version}, of which counts differ")


# every kernel of an arm; of a quadruped for one device; of a humanoid, which takes seconds each, one
ONE = ("talos", "inverse", "double", "columns")
TRIED = [
    limit
    for limit in LIMITS
    if limit.case.robot in ("panda", LONG)
    or (limit.case.robot == "solo12" and limit.arch == 90)
    or limit.case[:4] == ONE
]


@pytest.mark.parametrize("limit", TRIED, ids=lambda limit: limit.name.replace(" ", "-"))
def test_a_kernel_takes_no_more_than_it_did(limit):
    grown = gpu_limits.grown(limit, gpu_limits.counts(limit))
    assert not grown, f"{limit.name}: {', '.join(grown)}"


def test_the_table_is_of_all_kernels():
    of = Counter(
        (limit.case.robot, limit.case.problem, limit.case.precision) for limit in LIMITS if limit.arch == 90
    )
    every = {(r, p, precision) for r in ROBOTS for p in PROBLEMS for precision in PRECISIONS}
    assert set(of) == every | {(LONG, "forward", "float")}
    assert {limit.arch for limit in LIMITS} == {80, 90, 100, 120}
    assert {(limit.case, limit.arch) for limit in LIMITS} == set(gpu_limits.cases())


def test_the_checker_finds_what_has_grown():
    """A kernel that takes a little more, and one that takes more, of one thing after the other."""
    was = LIMITS[0]._replace(counts={"registers": 64, "spilled": 200, "shared": 4096, "sass": 1089})
    assert gpu_limits.grown(was, was.counts) == []
    for what, count in was.counts.items():
        assert gpu_limits.grown(was, {**was.counts, what: int(1.03 * count)}) == []
        much = int(1.03 * count) + 1
        assert gpu_limits.grown(was, {**was.counts, what: much}) == [f"{what} {count} -> {much}"]
    nothing = was._replace(counts={**was.counts, "spilled": 0})
    assert gpu_limits.grown(nothing, {**nothing.counts, "spilled": 4}) == ["spilled 0 -> 4"]
