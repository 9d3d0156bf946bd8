"""Common base of both nodes: parameters, the RobotManager of one robot, clock and diagnostics."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter
from std_srvs.srv import Trigger

from dynamics_node.node.building.worker import WORKERS
from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.parameters import Numbers, Parameter, Strings, as_declared, unknown_names
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.node.errors import NO_STATE, Reminder
from dynamics_node.node.ros.bounded_executor import REQUESTS
from dynamics_node.node.ros.inputs import RELIABLE, Subscriptions
from dynamics_node.node.ros.messages import diagnostic_message
from dynamics_node.node.ros.running import Throttle
from dynamics_node.node.state.joint_memory import JUMP_BACK
from dynamics_node.text import one_line

_ROS_TYPES = {
    bool: RosParameter.Type.BOOL,
    str: RosParameter.Type.STRING,
    float: RosParameter.Type.DOUBLE,
    Strings: RosParameter.Type.STRING_ARRAY,
    Numbers: RosParameter.Type.DOUBLE_ARRAY,
}


def declare_parameters(node, parameters=PARAMETERS, read=read_settings):
    """Declare all parameters of the table, each with a value, so that one request can get all.

    Raises ValueError for invalid start values, as `read` and for other types.
    """
    values = {p.name: as_declared(p, _given_at_start(node, p.name)) for p in parameters}
    read(values)  # with clearer errors than rclpy
    for parameter in parameters:
        value, kind = values[parameter.name], _ROS_TYPES[parameter.kind]
        node.declare_parameter(
            parameter.name, value if value != [] else kind, _descriptor(parameter), ignore_override=True
        )
        if value == []:  # ROS cannot infer the type of an empty list
            node.set_parameters([RosParameter(parameter.name, kind, value)])
    table = {parameter.name: parameter for parameter in parameters}
    node.add_pre_set_parameters_callback(lambda changes: [_in_declared_type(table, c) for c in changes])
    node.add_on_set_parameters_callback(lambda changes: _keep_read_only(node, table, changes))


def parameter_values(node, changes=(), parameters=PARAMETERS):
    """{name: value} of the table, with `changes` (rclpy parameters) applied."""
    values = {parameter.name: node.get_parameter(parameter.name).value for parameter in parameters}
    values.update({change.name: change.value for change in changes if change.name in values})
    return values


def _given_at_start(node, name):
    """The value of the command line or a parameter file, of any type; None without one."""
    node.declare_parameter(name, None, ParameterDescriptor(dynamic_typing=True))
    value = node.get_parameter(name).value
    node.undeclare_parameter(name)
    return value


def _in_declared_type(table, change):
    """The change with its value converted, for example integers to numbers; rclpy rejects other types."""
    parameter = table.get(change.name)
    if parameter is None or change.value is None:
        return change
    try:
        value = as_declared(parameter, change.value)
    except ValueError:
        return change
    return RosParameter(change.name, _ROS_TYPES[parameter.kind], value)


def _keep_read_only(node, table, changes):
    """Reject changes of start parameters. The current value is accepted, unlike with the descriptor's
    read_only: `ros2 param load` of the output of `ros2 param dump` must work."""
    for change in changes:
        parameter = table.get(change.name)
        if parameter is None or not parameter.read_only:
            continue
        if node.get_parameter_or(change.name, change).value != change.value:
            reason = (
                f"{change.name} can be set only at start: pass it on the command line or in a parameter file"
            )
            return SetParametersResult(successful=False, reason=reason)
    return SetParametersResult(successful=True)


def _descriptor(parameter: Parameter):
    constraints = [f"one of {', '.join(parameter.choices)}"] if parameter.choices else []
    constraints += ["can be set only at start"] if parameter.read_only else []
    descriptor = ParameterDescriptor(
        name=parameter.name,
        description=parameter.description,
        additional_constraints="; ".join(constraints),
    )
    if parameter.bounds:
        low, high = (0.0 if parameter.or_zero else parameter.bounds[0]), parameter.bounds[1]
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor


POLL_PERIOD = 0.005  # s between polls of a build


class RobotNode(LifecycleNode, ABC):
    """A subclass creates its `_inputs`, then calls `_begin`. A configured node has a robot, an active one
    publishes.

    table: its parameters; read: settings from {name: value}; served: options of its RobotManager; TITLE: of
    its diagnostics; LOST_ON_JUMP_BACK: log text for a jump of ROS time.
    """

    TITLE = ""
    LOST_ON_JUMP_BACK = ""
    _inputs: Subscriptions

    def __init__(self, name, table, read, served=None, **arguments):
        super().__init__(name, **arguments)
        self._table, self._read = table, read
        declare_parameters(self, table, read)
        for line in unknown_names(self._parameter_overrides, self._parameters):
            self.get_logger().warning(one_line(line))
        self._throttle = Throttle()
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._poll_timer = self._steady_timer(POLL_PERIOD, self._look_at_build)
        self._statistics, self._reminder = Statistics(), Reminder()
        self._manager = RobotManager(
            self._settings(), self.get_logger(), self._poll_timer.reset, **(served or {})
        )
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", RELIABLE)
        self.create_service(Trigger, "~/reload", self._reload)
        self._report: Iterator[bool] = iter(())
        self._steady_timer(1.0, self._begin_report)
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-JUMP_BACK))
        self._jump = self.get_clock().create_jump_callback(threshold, post_callback=self._on_clock_jump)

    def create_service(self, *arguments, qos_profile=REQUESTS, **options):
        """See rclpy, whose own depth is ten requests."""
        return super().create_service(*arguments, qos_profile=qos_profile, **options)

    def _begin(self, activate=True):
        """Accept changes of parameters, configure, and activate."""
        self.add_on_set_parameters_callback(self._validate_parameters)
        self.add_post_set_parameters_callback(self._use_parameters)
        self.trigger_configure()
        if activate:
            self.trigger_activate()

    def _steady_timer(self, period, callback):
        """A timer on steady time: builds and staleness checks continue while simulated time stands still."""
        return self.create_timer(period, callback, clock=self._steady)

    def problem(self, text):
        """Log an internal error and count it in the diagnostics."""
        self._statistics.failed(text)
        self.get_logger().error(text)

    # --- lifecycle ----------------------------------------------------------------------------

    @abstractmethod
    def _set_active(self, is_active: bool):
        """Begin or end the output."""

    def on_configure(self, state):
        """Load the robot of the parameters, or of the last description."""
        self._manager.reload()
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state):
        """Begin the output."""
        self._set_active(True)
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state):
        """End the output; the robot stays."""
        self._set_active(False)
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state):
        """Drop the robot."""
        self._manager.drop()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state):
        """End the output, and drop the robot."""
        self._set_active(False)
        return self.on_cleanup(state)

    # --- robots and time ----------------------------------------------------------------------

    def _look_at_build(self):
        before = self._manager.core
        if self._manager.step():
            if self._manager.core is not before:
                self._statistics.note(NO_STATE)
            self._inputs.subscribe()
        if not self._manager.building:
            self._poll_timer.cancel()

    def _on_clock_jump(self, jump):
        if self._throttle.due("jump"):
            self.get_logger().warning(f"ROS time jumped back: {self.LOST_ON_JUMP_BACK}")
        if self._manager.core is not None:
            self._manager.core.forget()

    # --- parameters and services --------------------------------------------------------------

    def _settings(self, changes=()):
        """Settings of the parameters with changes. Raises ValueError."""
        return self._read(parameter_values(self, changes, self._table))

    def _validate_parameters(self, changes):
        try:
            self._manager.check(self._settings(changes))
        except Exception as error:  # any error must reject the value
            return SetParametersResult(successful=False, reason=one_line(error))
        return SetParametersResult(successful=True)

    def _use_parameters(self, changes):
        if all(change.name.startswith("qos_overrides.") for change in changes):
            return  # of a new subscription
        self._manager.use(self._settings())
        self._inputs.subscribe()

    def _reload(self, request, response):
        response.success, response.message = self._manager.reload()
        return response

    # --- reports ------------------------------------------------------------------------------

    def _begin_report(self):
        self._report = self._slices_of_report()

    def report_on(self) -> bool:
        """The next slice of a report, after the output of a turn; True while slices remain."""
        return next(self._report, False)

    def _slices_of_report(self):
        """Publish the diagnostics, and log the reason if there is no output for long. Code that runs once a
        second is not in the caches of the processor: at once this takes 3 ms, several joint states."""
        if any([worker.end_if_stopped() for worker in WORKERS]):
            self.get_logger().warning("a process of the node was stopped by a signal and is replaced")
        self._before_report()
        yield True
        status = self._status()
        yield True
        trouble_and_remedy = ("", "") if self._needs_no_log() else self._trouble_and_remedy()
        if (line := self._reminder.next(*trouble_and_remedy)) and self._throttle.due("no output"):
            self.get_logger().warning(one_line(line))
        name = f"{self.get_fully_qualified_name()[1:]}: {self.TITLE}"
        message = diagnostic_message(self.get_clock().now().to_msg(), name, status)
        yield True
        self._diagnostics.publish(message)

    def _before_report(self):
        """Update the statistics before a report."""

    @abstractmethod
    def _status(self):
        """The Status of the diagnostics, see core/diagnostics.py."""

    def _needs_no_log(self):
        """Whether missing output needs no log line: the first robot is being built, or has failed with an
        error in the log."""
        return self._manager.core is None and (self._manager.building or bool(self._manager.failure))

    def _trouble_and_remedy(self):
        """What is missing and why, and the suggested fix."""
        return self._statistics.trouble, self._statistics.remedy

    def destroy_node(self):
        """Cancel the build and destroy the node."""
        self._manager.cancel()
        super().destroy_node()
