"""Docstrings of public names: the sections of NumPy's style, and examples that run."""

import doctest
import importlib
import inspect
import warnings

import numpy as np
import pytest

import dynamics_node as dn


def public():
    """(name, object, class or None) of every public name, and of the methods of public classes."""
    for name in dn.__all__:
        thing = getattr(dn, name)
        if isinstance(thing, dict):  # QUANTITIES: data has no docstring, docs/_templates describes it
            continue
        yield name, thing, None
        if inspect.isclass(thing):
            for method, own in vars(thing).items():
                function = getattr(own, "fget", own)  # of a property
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{method}", function, thing


THINGS = {name: (thing, owner) for name, thing, owner in public()}


def has(doc, section):
    return f"\n{section}\n{'-' * len(section)}\n" in f"{doc}\n"


@pytest.mark.parametrize("name", THINGS)
def test_sections(name):
    thing, owner = THINGS[name]
    doc = inspect.getdoc(thing)
    assert doc, f"{name} has no docstring"
    assert doc.partition("\n\n")[0].rstrip().endswith((".", ":")), (
        f"{name}: the first paragraph is a sentence"
    )
    assert "+SKIP" not in doc
    if inspect.isclass(thing):
        fields = getattr(thing, "_fields", None) or getattr(thing, "__dataclass_fields__", None)
        if fields and not issubclass(thing, BaseException):
            assert has(doc, "Parameters") or has(doc, "Attributes"), (
                f"{name} lists no Parameters or Attributes"
            )
    elif inspect.isfunction(thing):
        arguments = [key for key in inspect.signature(thing).parameters if key != "self"]
        assert not arguments or has(doc, "Parameters"), f"{name} has no section Parameters"
        missing = [key for key in arguments if key not in doc]
        assert not missing, f"{name} documents no {missing}"
        is_property = owner is not None and isinstance(
            inspect.getattr_static(owner, thing.__name__, None), property
        )
        assert is_property or has(doc, "Returns"), f"{name} has no section Returns"


NEED_EXAMPLE = [
    name
    for name, (thing, owner) in THINGS.items()
    if owner is None
    and callable(thing)
    and not (inspect.isclass(thing) and issubclass(thing, Exception | Warning))
]


@pytest.mark.parametrize("name", NEED_EXAMPLE)
def test_has_an_example(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(THINGS[name][0], name) or [None]
    assert test is not None and test.examples, f"{name} has no example"


MODULES = sorted(
    {value.__module__ for name in dn.__all__ if hasattr(value := getattr(dn, name), "__module__")}
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_list(module):
    """`./dev docs` runs those of the pages."""
    output: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dn.ModelWarning)
        robot = dn.example_robot("panda", tips=["panda_hand"])
        for test in doctest.DocTestFinder().find(importlib.import_module(module)):
            test.globs |= {"np": np, "dn": dn, "robot": robot}  # as docs/conf.py gives them
            doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    text = "".join(output)
    if "ImportError" in text:
        pytest.skip(text.strip().splitlines()[-1])
    assert not output, text
