"""6-D (spatial) vector algebra, angular part first: Featherstone, Rigid Body Dynamics Algorithms, ch. 2.

Every function takes arrays with any leading axes and any element type that has + - * /: floats
and symbols alike.
"""

from dynamics_node.spatial.algebra import (
    congruence,
    cross_force,
    cross_motion,
    matvec,
    skew,
    spatial_inertia,
    symmetric,
    transpose,
)
from dynamics_node.spatial.elementary import Shift, Turn, plane_turn
from dynamics_node.spatial.fixed_order import (
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
from dynamics_node.spatial.linear import (
    definite_pivots,
    half_solved,
    inverse_congruence,
    inverse_diagonal,
    solve,
    solve_definite,
)
from dynamics_node.spatial.pseudo_inertia import inertia_of_pseudo, pseudo_inertia
from dynamics_node.spatial.rotation import (
    UNIT,
    axis_rotation_parts,
    quaternion_difference,
    quaternion_rates,
    quaternion_rotation,
    rpy_rotation,
    turned_quaternion,
)
from dynamics_node.spatial.transform import (
    inverse_motion_transform,
    motion_transform,
    rotation_transform,
    transform_origin,
    transform_rotation,
)

__all__ = [
    "UNIT",
    "Shift",
    "Turn",
    "angle_of",
    "axis_rotation_parts",
    "carried_inertia",
    "congruence",
    "cross_force",
    "cross_motion",
    "definite_pivots",
    "dot",
    "half_solved",
    "inertia_of_pseudo",
    "inverse_congruence",
    "inverse_diagonal",
    "inverse_motion_transform",
    "least_squares",
    "length",
    "matvec",
    "motion_transform",
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
    "transform_origin",
    "transform_rotation",
    "transpose",
    "turned_quaternion",
]
