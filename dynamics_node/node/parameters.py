"""PARAMETERS declared with rclpy: types, descriptions, ranges."""

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.parameter import Parameter as RosParameter

from dynamics_node.node.settings import NUMBERS, PARAMETERS, STRINGS

_LISTS = {id(STRINGS): RosParameter.Type.STRING_ARRAY, id(NUMBERS): RosParameter.Type.DOUBLE_ARRAY}


def declare_parameters(node):
    """Declare the whole table; an empty list is declared by its type alone."""
    for parameter in PARAMETERS:
        value = _LISTS.get(id(parameter.default), parameter.default)
        node.declare_parameter(parameter.name, value, _descriptor(parameter))


def parameter_values(node, changes=()):
    """{name: value} of the table, with `changes` (rclpy parameters) applied."""
    unset = RosParameter("unset", RosParameter.Type.NOT_SET)
    values = {p.name: node.get_parameter_or(p.name, unset).value for p in PARAMETERS}
    values.update({change.name: change.value for change in changes if change.name in values})
    return values


def _descriptor(parameter):
    descriptor = ParameterDescriptor(
        name=parameter.name,
        description=parameter.description,
        read_only=parameter.read_only,
        additional_constraints=f"one of {', '.join(parameter.choices)}" if parameter.choices else "",
    )
    if parameter.bounds:
        low, high = parameter.bounds
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor
