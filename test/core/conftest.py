"""Fixtures: a robot, its model and its oracle, each built once."""

from functools import cache

import pytest
from robots import ROBOTS

from dynamics_node.backends.c import compiler, kernel, library
from dynamics_node.programs import limbs


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


@pytest.fixture(autouse=True)
def one_way(request, monkeypatch):
    """Programs are compiled in one way, but where a test asks for `every_way`: to measure all of them, hundreds of
    Programs long, takes two minutes of a core."""
    if "every_way" not in request.fixturenames:
        monkeypatch.setattr(kernel, "QUICK", 0)
        monkeypatch.setattr(limbs, "MANY", 0)


@pytest.fixture
def every_way():
    """Other flags and orders of operations are tried, as users have it."""


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The folder of compiled code, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dynamics_node"


@pytest.fixture
def fresh(own_cache, monkeypatch):
    """The same for a process that has loaded nothing and knows no compiler yet."""
    monkeypatch.setattr(library, "_loaded", {})
    monkeypatch.setattr(compiler, "_hanging", [])
    compiler._found_compiler.cache_clear()
    yield own_cache
    compiler._found_compiler.cache_clear()
