"""The rclpy node: topics, parameters and timers around what decides without ROS."""

from time import monotonic_ns, perf_counter

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from std_srvs.srv import Trigger

from dynamics_node.node.estimator.core import EstimatorCore
from dynamics_node.node.estimator.diagnostics import report
from dynamics_node.node.estimator.inputs import EstimatorInputs, time_message
from dynamics_node.node.estimator.outputs import ESTIMATES
from dynamics_node.node.estimator.settings import PARAMETERS, check_against, read_settings
from dynamics_node.node.hearing import THROTTLE
from dynamics_node.node.joint_memory import JUMP_BACK
from dynamics_node.node.messages import diagnostic_message
from dynamics_node.node.outputs import Outputs
from dynamics_node.node.parameters import declare_parameters, parameter_values
from dynamics_node.node.qos import RELIABLE
from dynamics_node.node.serving import Serving
from dynamics_node.node.silence import NO_STATE, Reminder, Silence
from dynamics_node.node.statistics import Statistics
from dynamics_node.node.text import shown

POLL_PERIOD = 0.02  # s, between looks at a build under way


class EstimatorNode(Node):
    """See config/estimator.yaml for the parameters, docs/estimator.md for topics."""

    def __init__(self, **arguments):
        super().__init__("dynamics_estimator", **arguments)
        declare_parameters(self, PARAMETERS, read_settings)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._poll_timer = self.create_timer(POLL_PERIOD, self._look_at_build, clock=self._steady)
        self._statistics, self._reminder = Statistics(), Reminder()
        settings = read_settings(self._values())
        self._serving = Serving(
            settings, self.get_logger(), self._poll_timer.reset, make=EstimatorCore, check=check_against
        )
        self._estimates = Outputs(self, ESTIMATES)
        self._inputs = EstimatorInputs(self, self._serving, self._statistics)
        self._inputs.listen()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", RELIABLE)
        self.create_service(Trigger, "~/reload", self._reload)
        self.create_timer(1.0, self._report, clock=self._steady)
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-JUMP_BACK))
        self._jump = self.get_clock().create_jump_callback(threshold, post_callback=self._on_clock_jump)
        self.add_on_set_parameters_callback(self._validate_parameters)
        self.add_post_set_parameters_callback(self._use_parameters)
        self._serving.load_configured()

    def _values(self, changes=()):
        return parameter_values(self, changes, PARAMETERS)

    # --- in every turn ------------------------------------------------------------------------

    def settle(self):
        """Tell what is known of the newest step that a turn has brought."""
        core = self._serving.core
        if self._inputs.end_turn() and core is not None:
            self._estimate(core)
        return False

    def _estimate(self, core):
        started = perf_counter()
        try:
            told = core.advance(monotonic_ns())
        except Silence as reason:
            self._statistics.silent(reason)
            return
        for note in core.notes:
            self.get_logger().warning(note, throttle_duration_sec=THROTTLE)
        core.notes.clear()
        if told is not None:
            self._estimates.publish(core, told, time_message(told.stamp))
            self._statistics.solved(perf_counter() - started, ())

    def problem(self, text):
        """Log an error of ours, and show it in the diagnostics."""
        self._statistics.failed(text)
        self.get_logger().error(text)

    # --- robots and time ----------------------------------------------------------------------

    def _look_at_build(self):
        before = self._serving.core
        if self._serving.step():
            if self._serving.core is not before:
                self._statistics.note(NO_STATE)
            self._inputs.listen()
        if not self._serving.building:
            self._poll_timer.cancel()

    def _on_clock_jump(self, jump):
        self.get_logger().warning("ROS time jumped back: the estimate begins anew")
        if self._serving.core is not None:
            self._serving.core.forget()

    # --- parameters and services --------------------------------------------------------------

    def _validate_parameters(self, changes):
        try:
            self._serving.check(read_settings(self._values(changes)))
        except Exception as error:  # whatever it is, the value must not stay
            return SetParametersResult(successful=False, reason=shown(error))
        return SetParametersResult(successful=True)

    def _use_parameters(self, changes):
        if all(change.name.startswith("qos_overrides.") for change in changes):
            return  # of a subscription that is being made
        self._serving.use(read_settings(self._values()))
        self._inputs.listen()

    def _reload(self, request, response):
        response.success, response.message = self._serving.reload()
        return response

    # --- reports ------------------------------------------------------------------------------

    def _report(self):
        """Diagnostics, and in the terminal a silence that lasts, where people look first."""
        self._note_stale_input()
        if told := self._reminder.next(*self._lasting_silence()):
            self.get_logger().warning(shown(told), throttle_duration_sec=THROTTLE)
        stamp = self.get_clock().now().to_msg()
        name = f"{self.get_fully_qualified_name()[1:]}: estimator"
        self._diagnostics.publish(diagnostic_message(stamp, name, report(self._serving, self._statistics)))

    def _note_stale_input(self):
        if self._serving.core is None:
            return
        try:
            self._serving.core.require_fresh(monotonic_ns())
        except Silence as reason:
            self._statistics.note(reason)

    def _lasting_silence(self):
        """Its reason and what may help; "" while an error has said why there is no robot."""
        serving = self._serving
        if serving.building or (serving.failure and serving.core is None):
            return "", ""
        return self._statistics.silent_because, self._statistics.remedy

    def destroy_node(self):
        """End a build under way with the node."""
        self._serving.cancel()
        super().destroy_node()
