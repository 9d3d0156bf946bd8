"""Straight-line programs: what a computation on arrays comes to for one robot.

`trace` runs a function of arrays on symbols and keeps the scalar operations as a Program; `interpret`
says what a Program means; `jacobian` derives it.
"""

from dynamics_node.program.derivative import derivative_name, gradient, jacobian
from dynamics_node.program.expression import Expression, Op, Table
from dynamics_node.program.fused import Fused, fused
from dynamics_node.program.interpret import interpret, interpret_portable
from dynamics_node.program.order import depth_first, group_after_group, in_order, most_alive
from dynamics_node.program.packed import packed
from dynamics_node.program.program import Program, ProgramError
from dynamics_node.program.rolled import Rolled, Sweep
from dynamics_node.program.staged import Stage, Staged
from dynamics_node.program.staging import Staging, entries, flattened, mapped
from dynamics_node.program.trace import trace

__all__ = [
    "Expression",
    "Fused",
    "Op",
    "Program",
    "ProgramError",
    "Rolled",
    "Stage",
    "Staged",
    "Staging",
    "Sweep",
    "Table",
    "depth_first",
    "derivative_name",
    "entries",
    "flattened",
    "fused",
    "gradient",
    "group_after_group",
    "in_order",
    "interpret",
    "interpret_portable",
    "jacobian",
    "mapped",
    "most_alive",
    "packed",
    "trace",
]
