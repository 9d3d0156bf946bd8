"""Fixtures: a robot, its model and its oracle, each built once."""

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from robots import ROBOTS


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
