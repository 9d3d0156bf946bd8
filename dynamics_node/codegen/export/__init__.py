"""Programs as source for other systems, see docs/how-to/export.md."""

from dynamics_node.codegen.export.casadi import casadi_name
from dynamics_node.codegen.export.entry import DTYPES, Argument, Entry, RobotFacts, derivative_entry
from dynamics_node.codegen.export.names import identifier, identifiers, plain
from dynamics_node.codegen.export.statements import MANY
from dynamics_node.codegen.export.targets import (
    DOUBLE,
    TARGETS,
    WITH_CASADI,
    Target,
    one_file,
    write,
)
