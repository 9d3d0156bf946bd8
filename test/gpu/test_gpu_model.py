"""The static model on code whose cost is known by hand, and the disassembler on a kernel that is known."""

import sys
from pathlib import Path

import pytest
from with_nvrtc import disassembler, nvrtc

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import gpu_model
from gpu_cards import CARDS, KINDS, resident_warps
from gpu_sass import NO_BARRIER, Instruction, histogram, instructions

NVRTC, HOPPER = nvrtc(), KINDS[90]
disassembler()


def _code(op, count, stall=1, suffix="", sets=NO_BARRIER, waits=0):
    return [Instruction(op, suffix, False, stall, sets, NO_BARRIER, waits) for _ in range(count)]


@pytest.mark.parametrize(
    ("kind", "registers", "block", "shared", "warps"),
    [
        (90, 32, 128, 0, 64),  # as many as there may be
        (90, 64, 128, 0, 32),
        (90, 72, 128, 0, 28),
        (90, 255, 128, 0, 8),
        (90, 168, 128, 0, 12),
        (90, 32, 128, 48 * 1024, 16),  # 4 blocks of 49 KB of 228
        (80, 32, 64, 0, 64),  # 32 blocks
        (120, 32, 128, 0, 48),
    ],
)
def test_how_many_warps_are_resident(kind, registers, block, shared, warps):
    """Figures of NVIDIA's occupancy calculator."""
    assert resident_warps(KINDS[kind], registers, block, shared) == warps


def test_enough_warps_keep_a_pipe_busy():
    """200 instructions that wait for nobody: one a cycle and scheduler, doubles every second, MUFU every eighth cycle."""
    restart = gpu_model._NEXT_BLOCK / 8
    for op, cycles in ("FFMA", 1), ("DFMA", 2), ("MUFU", 8), ("LDS", 4), ("ISETP", 2):
        found = gpu_model.cycles_of_a_warp(_code(op, 200, stall=4), HOPPER, 32)
        assert 200 * cycles <= found * 1.001 and found <= 200 * cycles + restart + 5, op
        assert gpu_model.cycles_by_pipe(_code(op, 200), HOPPER)[gpu_model.PIPE[op]] == 200 * cycles


def test_one_warp_waits_for_all_it_needs():
    """Stalls as the compiler wrote them; what waits for a scoreboard waits as long as its memory takes."""
    stalls = gpu_model.cycles_of_a_warp(_code("FFMA", 100, stall=5), HOPPER, 4)
    assert stalls == pytest.approx(100 * 5 + gpu_model._NEXT_BLOCK, rel=0.02)
    load = _code("LDG", 1, sets=0) + _code("FFMA", 1, waits=1)
    assert gpu_model.cycles_of_a_warp(load, HOPPER, 4) == pytest.approx(
        gpu_model.GLOBAL + gpu_model._NEXT_BLOCK, rel=0.02
    )
    assert gpu_model.cycles_of_a_warp(load, HOPPER, 32) < gpu_model.GLOBAL / 4


def test_wide_accesses_take_their_parts():
    assert gpu_model.cycles_by_pipe(_code("LDG", 10, suffix=".E.64"), HOPPER)["memory"] == 80
    assert gpu_model.cycles_by_pipe(_code("LDS", 10, suffix=".128"), HOPPER)["memory"] == 160


def test_bounds():
    """132 multiprocessors of 4 schedulers at 1.98 GHz, 32 states a warp; 4.8 TB/s."""
    card = CARDS["H200"]
    assert gpu_model.pipe_bound(_code("FFMA", 1000), card) == (
        pytest.approx(132 * 4 * 1.98e9 * 32 / 1000),
        "issue",
    )
    assert gpu_model.pipe_bound(_code("DFMA", 1000), card) == (
        pytest.approx(132 * 4 * 1.98e9 * 32 / 2000),
        "fp64",
    )
    assert gpu_model.memory_bound(112, card) == pytest.approx(4.8e12 / 112)


@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_the_instructions_of_a_kernel(arch):
    text = """extern "C" __global__ void states(const float *x, float *y) {
      const int i = threadIdx.x; float a = x[i];
      for (int k = 0; k < 10; ++k) a = __fmaf_rn(a, a, 1.5f);
      y[i] = 1 / a > 0 ? a : 2 * a; }"""
    code = instructions(NVRTC.cubin(text, arch).image)
    found = histogram(code)
    assert found["FFMA"] >= 10 and found["LDG"] == found["STG"] == 1 and found["EXIT"] >= 1
    assert "NOP" not in found and len(code) == sum(found.values())
    load = next(one for one in code if one.op == "LDG")
    assert load.sets != NO_BARRIER, "what comes from memory has a scoreboard"
    first = next(one for one in code if one.op == "FFMA")
    assert first.waits >> load.sets & 1, "which the first use waits for"


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
