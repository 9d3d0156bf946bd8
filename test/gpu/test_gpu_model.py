"""The static model on code whose cost is known by hand, and the disassembler on a kernel that is known."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from nvdisasm import listed
from with_nvrtc import disassembler, nvrtc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import gpu_model
from gpu_cards import CARDS

from dynamics_node.codegen import CompileError
from dynamics_node.codegen.cuda.choice import (
    GLOBAL,
    NEXT_BLOCK,
    NO_BOARD,
    OPERATIONS,
    Instruction,
    cycles_of_a_warp,
    instructions,
    processor_of,
)

NVRTC, HOPPER = nvrtc(), processor_of(90)
disassembler()


def _code(op, pipe, count, stall=1, parts=1, sets=NO_BOARD, waits=0):
    return [Instruction(op, pipe, parts, stall, sets, NO_BOARD, waits) for _ in range(count)]


def test_enough_warps_keep_a_pipe_busy():
    """200 instructions that wait for nobody: one a cycle and scheduler, doubles every second, MUFU every eighth cycle."""
    restart = NEXT_BLOCK / 8
    of = [("FFMA", "fma", 1), ("DFMA", "fp64", 2), ("MUFU", "special", 8), ("LDS", "memory", 4)]
    for op, pipe, cycles in (*of, ("ISETP", "alu", 2)):
        found = cycles_of_a_warp(_code(op, pipe, 200, stall=4), HOPPER, 32)
        assert 200 * cycles <= found * 1.001 and found <= 200 * cycles + restart + 5, op
        assert gpu_model.cycles_by_pipe(_code(op, pipe, 200), HOPPER)[pipe] == 200 * cycles


def test_one_warp_waits_for_all_it_needs():
    """Stalls as the compiler wrote them; what waits for a scoreboard waits as long as its memory takes."""
    stalls = cycles_of_a_warp(_code("FFMA", "fma", 100, stall=5), HOPPER, 4)
    assert stalls == pytest.approx(100 * 5 + NEXT_BLOCK, rel=0.02)
    load = _code("LDG", "memory", 1, sets=0) + _code("FFMA", "fma", 1, waits=1)
    assert cycles_of_a_warp(load, HOPPER, 4) == pytest.approx(GLOBAL + NEXT_BLOCK, rel=0.02)
    assert cycles_of_a_warp(load, HOPPER, 32) < GLOBAL / 4


def test_wide_accesses_take_their_parts():
    assert gpu_model.cycles_by_pipe(_code("LDG", "memory", 10, parts=2), HOPPER)["memory"] == 80
    assert gpu_model.cycles_by_pipe(_code("LDS", "memory", 10, parts=4), HOPPER)["memory"] == 160


def test_bounds():
    """132 multiprocessors of 4 schedulers at 1.98 GHz, 32 states a warp; 4.8 TB/s."""
    card = CARDS["H200"]
    assert gpu_model.pipe_bound(_code("FFMA", "fma", 1000), card) == (
        pytest.approx(132 * 4 * 1.98e9 * 32 / 1000),
        "issue",
    )
    assert gpu_model.pipe_bound(_code("DFMA", "fp64", 1000), card) == (
        pytest.approx(132 * 4 * 1.98e9 * 32 / 2000),
        "fp64",
    )
    assert gpu_model.memory_bound(112, card) == pytest.approx(4.8e12 / 112)


TEXT = """extern "C" __global__ void states(const float *x, const double2 *z, float *y) {
  __shared__ float4 kept[32];
  const int i = threadIdx.x; float a = x[i]; double2 b = z[i];
  kept[i] = make_float4(a, a + 1, a * 2, a - b.x);
  __syncthreads();
  for (int k = 0; k < 10; ++k) a = __fmaf_rn(a, a, kept[31 - i].w);
  b.x = b.x * b.y + 3; if (b.x > a) b.y += b.x;
  y[i] = 1 / a > 0 ? a : 2 * a + b.y; }"""


@pytest.mark.parametrize("arch", [75, 80, 90, 100, 120])
def test_instructions_are_read_as_nvidia_reads_them(arch):
    """Their names, the parts of wide accesses, what is for the scheduler, and where the code ends."""
    image = NVRTC.cubin(TEXT, arch).image
    code, theirs = instructions(image, "states"), listed(image)
    names = {name for _, name, _ in OPERATIONS}
    assert [one.op for one in code] == [one.op if one.op in names else "" for one in theirs]
    for one, other in zip(code, theirs, strict=True):
        fields = (other.second >> at & most for at, most in ((41, 15), (46, 7), (49, 7), (52, 63)))
        assert (one.stall, one.sets, one.reads, one.waits) == tuple(fields)
        if one.pipe == "memory" and one.op != "LDC":
            wide = {"64": 2, "128": 4}
            assert one.parts == max(wide.get(word, 1) for word in other.suffix.split("."))
    found = Counter(one.op for one in code)
    assert found["FFMA"] >= 10 and found["LDG"] == 2 and found["STG"] == 1 and found["DMUL"] >= 1
    assert {one.parts for one in code if one.op == "LDG"} == {1, 4}
    load = next(one for one in code if one.op == "LDG")
    assert load.sets != NO_BOARD, "what comes from memory has a scoreboard"
    assert {pipe for _, _, pipe in OPERATIONS} <= HOPPER.cycles.keys()


def test_what_holds_no_instructions_is_told():
    image = NVRTC.cubin(TEXT, 90).image
    for wrong in (b"", b"ELF" * 30, image[: len(image) // 2]):
        with pytest.raises(CompileError, match="no instructions of states"):
            instructions(wrong, "states")
    with pytest.raises(CompileError, match="no instructions of other"):
        instructions(image, "other")


def test_measured_rates_stand_beside_predicted_ones():
    """On the card and for the text that ran, and nowhere else; without a device they are null."""
    pytest.importorskip("pinocchio", reason="robots: pip install example-robot-data pin")
    import gpu
    from gpu_kernels import Case, Way, compiled
    from gpu_predict import digest
    from gpu_saved import Measured

    case, way = Case("panda", "inverse", "float"), Way()
    one = compiled(case, way)
    for row, detail in gpu.rate_rows(case, way, one, None):
        assert row.value is row.ok is None and row.reason == "predicted, never run" and row.peer_value > 1
        assert detail["device"] is detail["measured"] is None
    times = [
        {"digest": digest(one.kernel.text), "count": 10**k, "states_per_second": k * 2e9} for k in (5, 6)
    ]
    measured = Measured(
        {"device": {"name": "NVIDIA H200"}, "times": [*times, {"digest": "other", "states_per_second": 9e9}]}
    )
    on = {detail["name"][-4:]: row for row, detail in gpu.rate_rows(case, way, one, measured)}
    assert on["H100"].value is None
    assert on["H200"].value == pytest.approx(12) and on["H200"].reason == "by NVIDIA H200"
    assert on["H200"].ratio == pytest.approx(12 / on["H200"].peer_value)
