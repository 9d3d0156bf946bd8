"""Programs as source for other systems: C, CasADi, and what is made of them. See docs/how-to/export.md."""

from dynamics_node.codegen.export.entry import DTYPES, Argument, Entry
from dynamics_node.codegen.export.names import identifier, identifiers
from dynamics_node.codegen.export.write import TARGETS, WITH_CASADI, Target, write

__all__ = [
    "DTYPES",
    "TARGETS",
    "WITH_CASADI",
    "Argument",
    "Entry",
    "Target",
    "identifier",
    "identifiers",
    "write",
]
