"""A Function as a casadi.Function: compiled C with CasADi's interface, in the compile cache."""

from dynamics_node.codegen.c.compiler import compile_library, library_path
from dynamics_node.codegen.export import casadi_name, one_file
from dynamics_node.functions.exporting import exported_entry
from dynamics_node.optional import required


def to_casadi(function, order: int):
    """See Function.casadi."""
    casadi = required("casadi", "function.casadi()")
    entry = exported_entry(function, order)
    text = one_file(entry, with_casadi=True)
    key = compile_library(f"casadi {text}", lambda: text)
    return casadi.external(casadi_name(entry), str(library_path(key)))
