"""Dynamics of any robot from its URDF: torques, accelerations, operational-space inertias.

import dynamics_node as dn

model = dn.load_robot("panda.urdf")
tau = dn.build(model, dn.inverse_dynamics(model))(q, qd, qdd)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamics_node.library import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name):
    """What the library has, imported when it is asked for: NumPy and SciPy take a second, in which a node or
    a command could not be stopped."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library = import_module("dynamics_node.library")
    for names in (globals(), vars(library)):
        if name in names:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *import_module("dynamics_node.library").__all__]
