"""Fixtures: how C is compiled in tests. For a conftest to import."""

from pathlib import Path

import pytest

from dynamics_node.algorithms import limbs
from dynamics_node.codegen.c import batch_kernel as batch
from dynamics_node.codegen.c import kernel

__all__ = ["every_way", "in_one_order", "optimised", "quickly_compiled"]

QUICK_CC = Path(__file__).with_name("quick_cc")
QUICK, MANY = kernel.QUICK, limbs.MANY  # as users have them


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled():
    """Programs are compiled in one way, for to measure hundreds of them takes minutes, and without
    optimisation; but tests and files marked `optimised` have the flags, and tests that ask for `every_way`
    all ways, that users have."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernel, batch):
            patch.setattr(module, "QUICK", 0)
        patch.setenv("CC", str(QUICK_CC))
        yield


@pytest.fixture(autouse=True, scope="module")
def in_one_order():
    """Operations stay as they were traced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limbs, "MANY", 0)
        yield


@pytest.fixture(autouse=True)
def optimised(request, monkeypatch):
    """With the flags of users, where a test or its file is marked so."""
    if request.node.get_closest_marker("optimised"):
        monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def every_way(monkeypatch):
    """Other flags and orders of operations are tried, as users have it."""
    monkeypatch.delenv("CC", raising=False)
    for module in (kernel, batch):
        monkeypatch.setattr(module, "QUICK", QUICK)
    monkeypatch.setattr(limbs, "MANY", MANY)
