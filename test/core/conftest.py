"""Fixtures: a robot, its model and its oracle, each built once."""

import pytest
from flags import every_way, in_one_order, optimized, quickly_compiled
from robots import ROBOTS, robot_of

from dynamics_node.codegen.c import compiler

__all__ = ["every_way", "in_one_order", "optimized", "quickly_compiled"]


@pytest.fixture(params=ROBOTS)
def robot(request):
    return request.param


@pytest.fixture
def model(robot):
    return robot_of(robot)


@pytest.fixture
def oracle(robot):
    from cases import oracle_of  # skips without Pinocchio

    return oracle_of(robot)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The folder of compiled code, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dynamics_node"


@pytest.fixture
def fresh(own_cache, monkeypatch):
    """The same for a process without loaded libraries, without a known compiler and without CC."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler, "_loaded", {})
    monkeypatch.setattr(compiler, "_hanging", [])
    compiler._compiler_named.cache_clear()
    yield own_cache
    compiler._compiler_named.cache_clear()
