"""Fixtures of tests with plain values."""

import pytest
from cases import case_of


@pytest.fixture(scope="session")
def panda():
    """The Panda's model, what Pinocchio says of it, and a state."""
    return case_of("panda7")
