"""Fixtures of tests with plain values."""

import pytest
from cases import case_of


@pytest.fixture(scope="session")
def panda():
    """The Panda, Pinocchio's results for it, and a state."""
    return case_of("panda7")
