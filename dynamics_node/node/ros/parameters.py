"""A table of parameters declared with rclpy: types, descriptions, ranges."""

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.parameter import Parameter as RosParameter

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.conversions import as_declared
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.node.core.table import Numbers, Parameter, Strings

_ROS_TYPES = {
    bool: RosParameter.Type.BOOL,
    str: RosParameter.Type.STRING,
    float: RosParameter.Type.DOUBLE,
    Strings: RosParameter.Type.STRING_ARRAY,
    Numbers: RosParameter.Type.DOUBLE_ARRAY,
}


def declare_parameters(node, parameters=PARAMETERS, read=read_settings):
    """Declare the whole table; every parameter has a value, so that all of them can be asked for at once.

    Raises ValueError as `read`, and for a value of another type, for what was given at start.
    """
    values = {p.name: as_declared(p, _given_at_start(node, p.name)) for p in parameters}
    read(values)  # says it better than rclpy
    for parameter in parameters:
        value, kind = values[parameter.name], _ROS_TYPES[parameter.kind]
        node.declare_parameter(
            parameter.name, value if value != [] else kind, _descriptor(parameter), ignore_override=True
        )
        if value == []:  # ROS cannot tell its type
            node.set_parameters([RosParameter(parameter.name, kind, value)])
    table = {parameter.name: parameter for parameter in parameters}
    node.add_pre_set_parameters_callback(lambda changes: _in_declared_types(table, changes))
    node.add_on_set_parameters_callback(lambda changes: _keep_read_only(node, table, changes))


def parameter_values(node, changes=(), parameters=PARAMETERS):
    """{name: value} of the table, with `changes` (rclpy parameters) applied."""
    values = {parameter.name: node.get_parameter(parameter.name).value for parameter in parameters}
    values.update({change.name: change.value for change in changes if change.name in values})
    return values


def _given_at_start(node, name):
    """The value of the command line or a parameter file, of whatever type; None without."""
    node.declare_parameter(name, None, ParameterDescriptor(dynamic_typing=True))
    value = node.get_parameter(name).value
    node.undeclare_parameter(name)
    return value


def _in_declared_types(table, changes):
    """The changes with integers for numbers and the like put right; rclpy refuses what cannot be."""
    return [_in_declared_type(table, change) for change in changes]


def _in_declared_type(table, change):
    parameter = table.get(change.name)
    if parameter is None or change.value is None:
        return change
    try:
        value = as_declared(parameter, change.value)
    except ValueError:
        return change
    return RosParameter(change.name, _ROS_TYPES[parameter.kind], value)


def _keep_read_only(node, table, changes):
    """Refuse to change what is read at start. To repeat it is allowed, or `ros2 param load` of what
    `ros2 param dump` wrote would fail: hence not the descriptor's read_only."""
    for change in changes:
        parameter = table.get(change.name)
        if parameter is None or not parameter.read_only:
            continue
        if node.get_parameter_or(change.name, change).value != change.value:
            reason = f"{change.name} is read at start only: give it as a start parameter"
            return SetParametersResult(successful=False, reason=reason)
    return SetParametersResult(successful=True)


def _descriptor(parameter: Parameter):
    constraints = [f"one of {', '.join(parameter.choices)}"] if parameter.choices else []
    constraints += ["read at start only"] if parameter.read_only else []
    descriptor = ParameterDescriptor(
        name=parameter.name,
        description=parameter.description,
        additional_constraints="; ".join(constraints),
    )
    if parameter.bounds:
        low, high = (0.0 if parameter.or_zero else parameter.bounds[0]), parameter.bounds[1]
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor
