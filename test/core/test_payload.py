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
