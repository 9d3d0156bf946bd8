"""NVIDIA's compiler and disassembler for tests that need them: they work without a device."""

import os

import pytest

from dynamics_node.backends.cuda.nvrtc import find_nvrtc
from dynamics_node.backends.errors import CompileError

NEEDED = "DYNAMICS_GPU_CHECKS"  # in the environment of a stage that must not skip them


def without(reason):
    """The tests of this module are skipped, or fail where they are what the stage is for."""
    if os.environ.get(NEEDED):
        raise RuntimeError(f"{reason}: {NEEDED} is set, so nothing may be skipped")
    pytest.skip(reason, allow_module_level=True)


def nvrtc():
    """The library."""
    try:
        return find_nvrtc()
    except CompileError as error:
        return without(str(error))


def disassembler():
    """nvdisasm."""
    from nvdisasm import NoDisassembler, find_nvdisasm

    try:
        return find_nvdisasm()
    except NoDisassembler as absent:
        return without(str(absent))
