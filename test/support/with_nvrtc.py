"""NVRTC for tests that need it: it compiles without a device."""

import pytest

from dynamics_node.backends.cuda.nvrtc import find_nvrtc
from dynamics_node.backends.errors import CompileError


def nvrtc():
    """The library, or the tests of this module are skipped with the reason."""
    try:
        return find_nvrtc()
    except CompileError as error:
        pytest.skip(str(error), allow_module_level=True)
