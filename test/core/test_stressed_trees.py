"""Numerically hard trees against Pinocchio; `campaigns/numbers.py` draws thousands of them."""

import re

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from campaigns import trees


@pytest.mark.parametrize("seed", range(25))
def test_stressed_tree_agrees_with_pinocchio(seed):
    case = trees.draw(np.random.default_rng([38, seed]))
    verdict = trees.check(case._replace(compiled=seed == 0, graph=seed % 8 == 0))
    assert verdict == "ok" or verdict.startswith("refused: ")


def test_check_detects_a_wrong_number():
    """One link is a millionth lighter in Pinocchio's model."""
    case = trees.draw(np.random.default_rng([38, 0]))._replace(compiled=False, graph=False)
    assert trees.check(case) == "ok"
    mass = re.findall(r'mass value="([^"]*)"', case.tree.expanded)[-1]
    expanded = case.tree.expanded.replace(mass, repr(float(mass) * (1 - 1e-6)))
    assert trees.check(case._replace(tree=case.tree._replace(expanded=expanded))).startswith("SILENT ERROR: ")
