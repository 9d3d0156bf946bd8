"""Straight-line Programs: expressions, tracing, derivatives, interpretation. Spatial algebra."""

from dynamics_node.symbolic.algebra import (
    congruence,
    cross_force,
    cross_motion,
    matvec,
    skew,
    spatial_inertia,
    symmetric,
    transpose,
)
from dynamics_node.symbolic.derivative import derivative_name, gradient, jacobian
from dynamics_node.symbolic.elementary import Shift, Turn, plane_turn
from dynamics_node.symbolic.expression import Expression, Op, Table
from dynamics_node.symbolic.fixed_order import (
    angle_of,
    carried_inertia,
    dot,
    least_squares,
    length,
    pivoted,
    power_of_two,
    product,
    sine_cosine,
)
from dynamics_node.symbolic.fused import Fused, fused
from dynamics_node.symbolic.interpret import interpret, interpret_portable
from dynamics_node.symbolic.lane_program import Stage, Staged
from dynamics_node.symbolic.linear import (
    definite_pivots,
    half_solved,
    inverse_congruence,
    inverse_diagonal,
    solve,
    solve_definite,
)
from dynamics_node.symbolic.loop_program import Rolled, Sweep
from dynamics_node.symbolic.order import depth_first, group_after_group, in_order, most_alive
from dynamics_node.symbolic.packed import packed
from dynamics_node.symbolic.program import Program, ProgramError
from dynamics_node.symbolic.pseudo_inertia import inertia_of_pseudo, pseudo_inertia
from dynamics_node.symbolic.rotation import (
    UNIT,
    axis_rotation_parts,
    quaternion_difference,
    quaternion_rates,
    quaternion_rotation,
    rpy_rotation,
    turned_quaternion,
)
from dynamics_node.symbolic.staging import Staging, entries, flattened, mapped
from dynamics_node.symbolic.trace import trace
from dynamics_node.symbolic.transform import (
    inverse_motion_transform,
    motion_transform,
    rotation_transform,
    transform_origin,
    transform_rotation,
)

__all__ = [
    "UNIT",
    "Expression",
    "Fused",
    "Op",
    "Program",
    "ProgramError",
    "Rolled",
    "Shift",
    "Stage",
    "Staged",
    "Staging",
    "Sweep",
    "Table",
    "Turn",
    "angle_of",
    "axis_rotation_parts",
    "carried_inertia",
    "congruence",
    "cross_force",
    "cross_motion",
    "definite_pivots",
    "depth_first",
    "derivative_name",
    "dot",
    "entries",
    "flattened",
    "fused",
    "gradient",
    "group_after_group",
    "half_solved",
    "in_order",
    "inertia_of_pseudo",
    "interpret",
    "interpret_portable",
    "inverse_congruence",
    "inverse_diagonal",
    "inverse_motion_transform",
    "jacobian",
    "least_squares",
    "length",
    "mapped",
    "matvec",
    "most_alive",
    "motion_transform",
    "packed",
    "pivoted",
    "plane_turn",
    "power_of_two",
    "product",
    "pseudo_inertia",
    "quaternion_difference",
    "quaternion_rates",
    "quaternion_rotation",
    "rotation_transform",
    "rpy_rotation",
    "sine_cosine",
    "skew",
    "solve",
    "solve_definite",
    "spatial_inertia",
    "symmetric",
    "trace",
    "transform_origin",
    "transform_rotation",
    "transpose",
    "turned_quaternion",
]
