"""Public names have complete annotations, and an editor infers what test/typed states."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dynamics_node as dn

EXAMPLES = Path(__file__).parents[1] / "typed" / "library.py"


def annotated(function):
    """(function, names without a type) of a function, property or method."""
    signature = inspect.signature(function)
    names = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    return [n for n in names if n not in ("self", "cls")] + ["return"] * (
        signature.return_annotation is signature.empty and function.__name__ != "__init__"
    )


def functions_of(name):
    """(full name, function) of a public function, or of the public methods of a class."""
    thing = getattr(dn, name)
    if inspect.isfunction(thing):
        return [(name, thing)]
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return []
    members = [(key, m) for key, m in vars(thing).items() if key in ("__init__", "__call__") or key[0] != "_"]
    found = [
        (key, getattr(m, "fget", None) or getattr(m, "func", None) or getattr(m, "__func__", m))
        for key, m in members
    ]
    return [
        (f"{name}.{key}", f)
        for key, f in found
        if inspect.isfunction(f) and f.__module__.startswith("dynamics_node")
    ]


@pytest.mark.parametrize("name", dn.__all__)
def test_public_names_have_complete_annotations(name):
    assert not {full: missing for full, f in functions_of(name) if (missing := annotated(f))}


def test_typed_examples_pass_mypy_strict():
    pytest.importorskip("mypy", reason="pip install mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(EXAMPLES)]
    checked = subprocess.run(command, cwd=EXAMPLES.parents[2], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_typed_examples_pass_pyright():
    if (pyright := shutil.which("basedpyright") or shutil.which("pyright")) is None:
        pytest.skip("pip install basedpyright")
    command = [pyright, "--pythonpath", sys.executable, "--level", "error", str(EXAMPLES)]
    checked = subprocess.run(command, cwd=EXAMPLES.parents[2], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
