"""One root of all errors: what the library raises is a dn.Error, wrong Python, or the machine's."""

import ast
import builtins
from pathlib import Path

import pytest

import dynamics_node as dn
from dynamics_node import errors

LIBRARY = Path(dn.__file__).parent
# wrong Python, a file, a missing package, no memory, the end of an iteration or process, a defect of the library
OTHERS = (TypeError, OSError, ImportError, AttributeError, NotImplementedError, MemoryError, StopIteration,
          SystemExit, KeyboardInterrupt, RuntimeError)  # fmt: skip
PUBLIC = [getattr(dn, name) for name in dn.__all__ if name.endswith("Error")]


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_every_public_error_has_the_root(kind):
    assert issubclass(kind, dn.Error)
    assert issubclass(kind, (dn.InputError, dn.SolutionError, dn.CompileError)) or kind is dn.Error


def test_no_other_builtin_error_is_raised():
    """A ValueError, KeyError or ArithmeticError would pass `except dn.Error`."""
    raised = {}
    for file in sorted(LIBRARY.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if isinstance(made, ast.Name) and isinstance(getattr(builtins, made.id, None), type):
                    raised.setdefault(made.id, []).append(f"{file.relative_to(LIBRARY)}:{node.lineno}")
    assert {"TypeError", "OSError"} <= set(raised)
    assert not {
        name: places for name, places in raised.items() if not issubclass(getattr(builtins, name), OTHERS)
    }


def test_errors_remain_errors_of_python():
    """`except ValueError` and `except ArithmeticError` keep their meaning."""
    assert issubclass(dn.InputError, ValueError) and issubclass(dn.SolutionError, ArithmeticError)
    assert issubclass(dn.UnknownNameError, KeyError) and issubclass(dn.CompileError, RuntimeError)
    assert issubclass(errors.Unobservable, dn.TrajectoryError)
