"""NVIDIA's compiler and disassembler for tests that need them: they work without a device."""

import json
import os
from pathlib import Path

import pytest

from dynamics_node.codegen.cuda.nvrtc import find_nvrtc
from dynamics_node.codegen.errors import CompileError

PROBE = 'extern "C" __global__ void probe(float *x) { x[threadIdx.x] += 1; }'
COUNTED = tuple(json.loads((Path(__file__).parents[1] / "gpu" / "limits.json").read_text())["nvrtc"])
NEEDED = "DYNAMICS_GPU_CHECKS"  # in the environment of a stage that must not skip them


def without(reason):
    """The tests of this module are skipped, or fail where they are what the stage is for."""
    if os.environ.get(NEEDED):
        raise RuntimeError(f"{reason}: {NEEDED} is set, so nothing may be skipped")
    pytest.skip(reason, allow_module_level=True)


def nvrtc():
    """The library, which compiles a trivial kernel."""
    try:
        found = find_nvrtc()
        assert found.ptx(PROBE, 90)
    except CompileError as error:
        return without(str(error))
    return found


def counts(found):
    """Skip a test of registers and spills, which are those of one version of the compiler."""
    if found.version != COUNTED:
        pytest.skip(f"counts are of NVRTC {COUNTED}, this is {found.version}")


def disassembler():
    """nvdisasm."""
    from nvdisasm import NoDisassembler, find_nvdisasm

    try:
        return find_nvdisasm()
    except NoDisassembler as absent:
        return without(str(absent))
