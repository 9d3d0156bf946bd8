"""Programs: expressions, tracing, derivatives, interpretation, passes over operations. Spatial algebra."""

from dynamics_node.symbolic.derivative import derivative_name, gradient, jacobian, pullback, pushforward
from dynamics_node.symbolic.expression import Expression, Op
from dynamics_node.symbolic.fused import fused
from dynamics_node.symbolic.interpret import flattened, interpret, interpret_portable
from dynamics_node.symbolic.lane_program import LaneProgram, Stage, Staging, Value, entries, mapped
from dynamics_node.symbolic.lie_groups import (
    exp3,
    exp3_derivative,
    exp6,
    exp6_derivative,
    log3,
    log6,
    moved_along,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    velocity_to,
)
from dynamics_node.symbolic.linear_algebra import (
    definite_pivots,
    dot,
    half_solved,
    inverse_congruence,
    inverse_definite,
    inverse_diagonal,
    least_squares,
    length,
    pivoted,
    power_of_two,
    product,
    solve,
    solve_definite,
    transformed_inertia,
)
from dynamics_node.symbolic.program import Program, trace
from dynamics_node.symbolic.rotation import (
    UNIT,
    angle_of,
    axis_rotation_parts,
    nearer_to_unit,
    quaternion_difference,
    quaternion_rates,
    quaternion_rotation,
    rpy_angles,
    rpy_rotation,
    sine_cosine,
    turned_quaternion,
)
from dynamics_node.symbolic.schedule import depth_first, group_after_group, in_order, most_alive
from dynamics_node.symbolic.slp import vectorize
from dynamics_node.symbolic.spatial import (
    Rotation,
    Translation,
    axis_rotation,
    congruence,
    cross_force,
    cross_matrix,
    cross_motion,
    inertia_of_pseudo,
    inverse_motion_transform,
    matvec,
    motion_transform,
    pseudo_inertia,
    rotation_transform,
    skew,
    spatial_inertia,
    symmetric,
    transform_origin,
    transform_rotation,
    transpose,
    without_rounding,
)
from dynamics_node.symbolic.split import ProgramPart, SplitProgram, split
