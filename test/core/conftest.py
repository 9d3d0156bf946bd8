"""Fixtures: a robot, its model and its oracle, each built once."""

from functools import cache

import pytest
from flags import every_way, in_one_order, optimised, quickly_compiled
from robots import ROBOTS

from dynamics_node.codegen.c import compiler
from dynamics_node.codegen.c import compiler as library

__all__ = ["every_way", "in_one_order", "optimised", "quickly_compiled"]


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
