"""Physically impossible payloads raise an error before any computation."""

import numpy as np
import pytest
from robots import ROBOTS

from dynamics_node.robot.inertial_parameters import with_payload

LINK = "panda_hand"
SOLID = 0.01 * np.eye(3)


@pytest.fixture(scope="module")
def model():
    return ROBOTS["panda7"].model()


@pytest.mark.parametrize(
    "mass, com, inertia",
    [
        (1e308, (0, 0, 0), SOLID),
        (1.0, (1e200, 0, 0), SOLID),
        (1e9, (0, 1e4, 0), SOLID),
        (1.0, (0, 0, 0), 1e300 * np.eye(3)),
    ],
)
def test_implausibly_large_payload_is_rejected(model, mass, com, inertia):
    with pytest.raises(ValueError, match=r"payload.*1e\+15"):
        with_payload(model, LINK, mass, com, inertia)


def test_payload_of_a_crane_is_accepted(model):
    loaded = with_payload(model, LINK, 1e5, (0, 0, 20.0), 1e6 * np.eye(3))
    assert np.isfinite(loaded.inertias).all()


def test_payload_without_inertia_is_a_point_mass(model):
    point, explicit = (
        with_payload(model, LINK, 1.0, (0, 0, 0.1), *rest) for rest in ((), (np.zeros((3, 3)),))
    )
    assert np.array_equal(point.inertias, explicit.inertias)


@pytest.mark.parametrize(
    "com, inertia, words",
    [(0.1, SOLID, r"com .*\(3,\), not \(\)"), ((0, 0, 0), 0.002, r"inertia_com .*\(3, 3\), not \(\)")],
)
def test_wrong_shape_of_a_payload_raises(model, com, inertia, words):
    with pytest.raises(ValueError, match=words):
        with_payload(model, LINK, 1.0, com, inertia)
