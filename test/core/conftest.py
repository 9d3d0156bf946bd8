"""Fixtures: a robot, its model and its oracle, each built once."""

from functools import cache
from pathlib import Path

import pytest
from robots import ROBOTS

from dynamics_node.backends.c import batch, compiler, kernel, library
from dynamics_node.programs import limbs

QUICK_CC = Path(__file__).parents[1] / "support" / "quick_cc"
QUICK, MANY = kernel.QUICK, limbs.MANY  # as users have them


@cache
def _model(name):
    return ROBOTS[name].model()


@cache
def _oracle(name):
    from oracle import Oracle

    return Oracle(ROBOTS[name], _model(name))


@pytest.fixture(params=ROBOTS)
def robot(request):
    return request.param


@pytest.fixture
def model(robot):
    return _model(robot)


@pytest.fixture
def oracle(robot):
    return _oracle(robot)


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled(request):
    """Programs are compiled in one way, for to measure hundreds of them takes minutes, and without optimisation;
    but files marked `optimised` have the flags, and tests that ask for `every_way` all ways, that users have."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernel, batch):
            patch.setattr(module, "QUICK", 0)
        patch.setattr(limbs, "MANY", 0)
        if request.node.get_closest_marker("optimised") is None:
            patch.setenv("CC", str(QUICK_CC))
        yield


@pytest.fixture
def every_way(monkeypatch):
    """Other flags and orders of operations are tried, as users have it."""
    monkeypatch.delenv("CC", raising=False)
    for module in (kernel, batch):
        monkeypatch.setattr(module, "QUICK", QUICK)
    monkeypatch.setattr(limbs, "MANY", MANY)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The folder of compiled code, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dynamics_node"


@pytest.fixture
def fresh(own_cache, monkeypatch):
    """The same for a process that has loaded nothing, knows no compiler yet and was told none."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(library, "_loaded", {})
    monkeypatch.setattr(compiler, "_hanging", [])
    compiler._found_compiler.cache_clear()
    yield own_cache
    compiler._found_compiler.cache_clear()
