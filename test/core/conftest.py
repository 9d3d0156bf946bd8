"""Fixtures: a robot, its model and its oracle, each built once."""

from functools import cache

import pytest
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
