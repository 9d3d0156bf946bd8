"""Fixtures for conftest files: how tests compile C."""

from pathlib import Path

import pytest

from dynamics_node.algorithms import limbs
from dynamics_node.codegen.c import batch_kernel as batch
from dynamics_node.codegen.c import kernel

__all__ = ["NOT_FUSED", "every_way", "in_one_order", "optimized", "quickly_compiled"]

NOT_FUSED = ("-ffp-contract=off",)
QUICK_CC = Path(__file__).with_name("quick_cc")
QUICK, MANY = kernel.QUICK, limbs.MANY  # the defaults of the library


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled():
    """Programs are compiled in one way and without optimization: timing alternatives of hundreds of Programs takes
    minutes. The marker `optimized` restores the default flags, the fixture `every_way` the alternatives too."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernel, batch):
            patch.setattr(module, "QUICK", 0)
        patch.setenv("CC", str(QUICK_CC))
        yield


@pytest.fixture(autouse=True, scope="module")
def in_one_order():
    """Operations stay in the order of the trace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limbs, "MANY", 0)
        yield


@pytest.fixture(autouse=True)
def optimized(request, monkeypatch):
    """The default flags, for tests and files with this marker."""
    if request.node.get_closest_marker("optimized"):
        monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def every_way(monkeypatch):
    """The library times alternative orders of operations, as by default."""
    monkeypatch.delenv("CC", raising=False)
    for module in (kernel, batch):
        monkeypatch.setattr(module, "QUICK", QUICK)
    monkeypatch.setattr(limbs, "MANY", MANY)
