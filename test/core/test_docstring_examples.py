"""The examples of public docstrings run and print what they list. `./dev docs` runs those of the pages."""

import doctest
import importlib
import warnings

import numpy as np
import pytest

import dynamics_node as dn

PUBLIC = [getattr(dn, name) for name in dn.__all__]
MODULES = sorted({value.__module__ for value in PUBLIC if hasattr(value, "__module__")})


def examples_of(module):
    found = doctest.DocTestFinder().find(importlib.import_module(module))
    return [test for test in found if test.examples]


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_list(module):
    output: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dn.ModelWarning)
        robot = dn.example_robot("panda", tips=["panda_hand"])
        for test in examples_of(module):
            test.globs |= {"np": np, "dn": dn, "robot": robot}  # as docs/conf.py gives them
            doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    text = "".join(output)
    if "ImportError" in text:
        pytest.skip(text.strip().splitlines()[-1])
    assert not output, text


def test_most_modules_have_examples():
    assert sum(bool(examples_of(module)) for module in MODULES) > len(MODULES) / 2
