"""The solver is swapped again and again under a Core that carries payloads: no torque is off, not even by 1e-9."""

import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from swaps import Swaps
from tolerances import EXACT

COUNT = 400  # the campaign of the node makes a thousand a draw


def test_no_torque_is_off_across_swaps_with_payloads():
    assert Swaps(seed=1).run(COUNT) <= EXACT
