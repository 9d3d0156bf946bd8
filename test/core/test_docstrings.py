"""Docstrings of public names: the sections of NumPy's style, and examples that run."""

import doctest
import inspect

import numpy as np
import pytest
from robots import robot_of

import dynamics_node as dn

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


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


OPTIONAL = {
    "write_animation": "viser",
    **dict.fromkeys(("build_contact_solver", "ContactSolver", "ContactForces"), "daqp"),
}


@pytest.mark.parametrize("name", NEED_EXAMPLE)
def test_example(name):
    """`dn`, `np` and `robot`, a Panda, are defined, as on the pages of the documentation."""
    if module := OPTIONAL.get(name):
        pytest.importorskip(module, reason=f"an extra: pip install {module}")
    thing, _ = THINGS[name]
    (test,) = doctest.DocTestFinder(recurse=False).find(
        thing, name, globs={"dn": dn, "np": np, "robot": robot_of("panda7")}
    ) or [None]
    assert test is not None and test.examples, f"{name} has no example"
    said = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    assert not said, "".join(said)
