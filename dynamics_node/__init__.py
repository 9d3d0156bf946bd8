"""Dynamics of any robot from its URDF: torques, accelerations, operational-space inertias.

import dynamics_node as dn

robot = dn.example_robot("panda")
tau = dn.build(robot, "inverse_dynamics")(q, qd, qdd)
"""

import ast
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from dynamics_node.version import __version__ as __version__

if TYPE_CHECKING:
    from dynamics_node.library import *  # noqa: F403


@cache
def _contents():
    """{name: module} of library.py, in the order of its table of contents. The file is parsed, not run:
    importing all of it takes a second, in which a node or a command could not be stopped."""
    tree = ast.parse(Path(__file__).with_name("library.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: node.module for node in imports for alias in node.names}
    (table,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    return {name: modules[name] for name in table}


def __getattr__(name):
    """An attribute of the library, imported when it is first used."""
    if name == "__all__":
        return list(_contents())
    if name.startswith("__") or name not in _contents():
        raise _missing(name)
    value = getattr(import_module(_contents()[name]), name)
    globals()[name] = value
    return value


def _missing(name):
    """The error for a name that the library does not have. The import system asks for modules, too."""
    if name.startswith("_") or PathFinder.find_spec(f"{__name__}.{name}", [str(Path(__file__).parent)]):
        return AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamics_node.names import no_attribute

    return no_attribute(f"module {__name__!r}", name, _contents())


def __dir__():
    return [*(name for name in globals() if name.startswith("__")), *_contents()]
