"""Repeated swaps of the solver of a Core with payloads do not change torques."""

import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from swaps import Swaps
from tolerances import EXACT

COUNT = 200  # the campaign of the node makes 1000 per draw


def test_torques_are_exact_across_swaps_with_payloads():
    assert Swaps(seed=1).run(COUNT) <= EXACT
