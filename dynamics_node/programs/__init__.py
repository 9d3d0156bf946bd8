"""Programs of robots: (robot, what is asked) -> Program. It knows robots and runs nothing."""

from dynamics_node.programs.closing import step_program
from dynamics_node.programs.cost import cheapest, cost
from dynamics_node.programs.derivatives import derivative_program
from dynamics_node.programs.dynamics import (
    dynamics_program,
    dynamics_programs,
    recursive_programs,
)
from dynamics_node.programs.economical import economical, parameter_shapes, parameter_values
from dynamics_node.programs.eliminated import elimination_program
from dynamics_node.programs.limbs import alike, limb_after_limb, reordered
from dynamics_node.programs.measured import measured_program, regroups
from dynamics_node.programs.observer import begin_program, cycle_program, kept_size, views
from dynamics_node.programs.quantities import QUANTITIES, Quantity
from dynamics_node.programs.quantity_program import quantity_program, quantity_programs
from dynamics_node.programs.rolled import can_roll, rolled_program
from dynamics_node.programs.search import Found, Memory, best_ordering

__all__ = [
    "QUANTITIES",
    "Found",
    "Memory",
    "Quantity",
    "alike",
    "begin_program",
    "best_ordering",
    "can_roll",
    "cheapest",
    "cost",
    "cycle_program",
    "derivative_program",
    "dynamics_program",
    "dynamics_programs",
    "economical",
    "elimination_program",
    "kept_size",
    "limb_after_limb",
    "measured_program",
    "parameter_shapes",
    "parameter_values",
    "quantity_program",
    "quantity_programs",
    "recursive_programs",
    "regroups",
    "reordered",
    "rolled_program",
    "step_program",
    "views",
]
