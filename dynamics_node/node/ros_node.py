"""The rclpy node: topics, services, parameters and timers around what decides without ROS."""

from functools import partial
from time import monotonic_ns

from diagnostic_msgs.msg import DiagnosticArray
from dynamics_interfaces.srv import CalibrateWrenchSensor, SetPayload
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger

from dynamics_node.node.answers import Answers
from dynamics_node.node.diagnostics import report
from dynamics_node.node.hearing import THROTTLE
from dynamics_node.node.inputs import Inputs
from dynamics_node.node.joint_memory import JUMP_BACK
from dynamics_node.node.messages import diagnostic_message
from dynamics_node.node.outputs import OUTPUTS, PUSHES, READINGS, Outputs
from dynamics_node.node.parameters import declare_parameters, parameter_values
from dynamics_node.node.qos import RELIABLE
from dynamics_node.node.service_process import ServiceProcess, Start
from dynamics_node.node.services import COMPUTING, calibrate_wrench_sensor, guarded, set_payload
from dynamics_node.node.serving import Serving
from dynamics_node.node.settings import read_settings
from dynamics_node.node.silence import NO_STATE, Reminder
from dynamics_node.node.statistics import Statistics
from dynamics_node.node.text import shown

POLL_PERIOD = 0.02  # s, between looks at a build under way
STALE_PERIOD = 0.02  # s, between outputs of on_stale gravity and zero when rate is 0


class DynamicsNode(Node):
    """See config/dynamics.yaml for the parameters, docs/ros.md for topics and services."""

    def __init__(self, **arguments):
        super().__init__("dynamics_node", **arguments)
        declare_parameters(self)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._poll_timer = self._steady_timer(POLL_PERIOD, self._look_at_build)
        self._statistics, self._reminder = Statistics(), Reminder()
        self._lost_device = ""  # what was said of it
        settings = read_settings(parameter_values(self))
        self._serving = Serving(settings, self.get_logger(), self._poll_timer.reset)
        self._results, self._pushes = Outputs(self, OUTPUTS), Outputs(self, PUSHES)
        self._readings = Outputs(self, READINGS)
        self._inputs = Inputs(self, self._serving, self._statistics)
        self._answers = Answers(
            self._serving,
            self._statistics,
            self._publish,
            self._inputs.ros_now,
            publish_push=self._publish_push,
        )
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", RELIABLE)
        self._create_services()
        self._create_timers()
        self.add_on_set_parameters_callback(self._validate_parameters)
        self.add_post_set_parameters_callback(self._use_parameters)
        self._serving.load_configured()

    def _create_services(self):
        names = {name: self.resolve_service_name(f"~/{name}") for name in COMPUTING}
        start = Start(names, f"_{self.get_name()}_services", self.get_namespace())
        self._computing = ServiceProcess(start, self._wake)
        payload = guarded(lambda: self._serving.core, set_payload)
        self.create_service(SetPayload, "~/set_payload", payload)
        calibrate = guarded(lambda: self._serving.core, partial(calibrate_wrench_sensor, self._set))
        self.create_service(CalibrateWrenchSensor, "~/calibrate_wrench_sensor", calibrate)
        self.create_service(SetBool, "~/set_enabled", self._set_enabled)
        self.create_service(Trigger, "~/reload", self._reload)

    def _wake(self):
        """Begin a turn; for other threads."""
        if (executor := self.executor) is not None:
            executor.wake()

    def _create_timers(self):
        self._steady_timer(1.0, self._report)
        self._output_timer = None
        self._schedule_output()
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-JUMP_BACK))
        self._jump = self.get_clock().create_jump_callback(threshold, post_callback=self._on_clock_jump)

    def _schedule_output(self):
        """The timer that `rate` or `on_stale` asks for."""
        if self._output_timer is not None:
            self.destroy_timer(self._output_timer)
        self._output_timer = None
        settings = self._serving.settings
        if settings.rate > 0:
            self._output_timer = self._steady_timer(1.0 / settings.rate, self._answers.answer)
        elif settings.on_stale != "silent":
            self._output_timer = self._steady_timer(STALE_PERIOD, self._answers.answer_if_stale)

    def _steady_timer(self, period, callback):
        """Simulated time may stand still; models are built and staleness is judged all the same."""
        return self.create_timer(period, callback, clock=self._steady)

    # --- in every turn ------------------------------------------------------------------------

    def settle(self):
        """Do what a turn has brought: one torque, for the newest state, and a slice of what takes long. True
        while there is more of that."""
        if self._inputs.end_turn():
            if self._serving.settings.rate == 0:
                self._answers.answer()
            self._answers.observe()
        self._compensate()
        self._computing.step(self._serving.core)
        return self._inputs.read_on()

    def _publish(self, core, result):
        self._results.publish(core, result, self._inputs.stamp)

    def _compensate(self):
        """Publish what is left of the newest reading of the force/torque sensor."""
        core = self._serving.core
        if core is None or not self._answers.enabled:
            return
        if found := core.wrench_sensor.compensated(core, self._inputs.ros_now, monotonic_ns()):
            self._readings.publish(core, found, found.stamp)

    def _publish_push(self, core, push):
        self._pushes.publish(core, push, self._inputs.stamp)

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
        self.get_logger().warning("ROS time jumped back: measured state and reference are forgotten")
        self._inputs.forget()
        if self._serving.core is not None:
            self._serving.core.forget()

    # --- parameters and services --------------------------------------------------------------

    def _validate_parameters(self, changes):
        try:
            self._serving.check(read_settings(parameter_values(self, changes)))
        except Exception as error:  # whatever it is, the value must not stay
            return SetParametersResult(successful=False, reason=shown(error))
        return SetParametersResult(successful=True)

    def _use_parameters(self, changes):
        if all(change.name.startswith("qos_overrides.") for change in changes):
            return  # of a subscription that is being made
        old = self._serving.settings
        self._serving.use(read_settings(parameter_values(self)))
        if (old.rate, old.on_stale) != (self._serving.settings.rate, self._serving.settings.on_stale):
            self._schedule_output()
        self._inputs.listen()

    def _set(self, values) -> str:
        """Set parameters {name: value}, all or none: why they are refused, or ''."""
        changes = [Parameter(name, value=value) for name, value in values.items()]
        result = self.set_parameters_atomically(changes)
        return "" if result.successful else result.reason

    def _set_enabled(self, request, response):
        self._answers.enabled = request.data
        response.success, response.message = True, "enabled" if request.data else "disabled"
        return response

    def _reload(self, request, response):
        response.success, response.message = self._serving.reload()
        return response

    # --- reports ------------------------------------------------------------------------------

    def _report(self):
        """Diagnostics, and in the terminal a silence that lasts, where people look first."""
        if problem := self._computing.look_after():
            self.get_logger().warning(problem)
        if (lost := self._computing.lost_device) and lost != self._lost_device:
            self.get_logger().error(f"the GPU is lost, services go on with the CPU: {shown(lost)}")
        self._lost_device = lost
        self._answers.note_stale_input()
        if told := self._reminder.next(*self._lasting_silence()):
            self.get_logger().warning(shown(told), throttle_duration_sec=THROTTLE)
        status = report(self._serving, self._statistics, self._answers.enabled, lost)
        stamp = self.get_clock().now().to_msg()
        name = f"{self.get_fully_qualified_name()[1:]}: dynamics"
        self._diagnostics.publish(diagnostic_message(stamp, name, status))

    def _lasting_silence(self):
        """Its reason and what may help; "" while it is wanted, or an error has said why there is no robot."""
        serving = self._serving
        told = bool(serving.failure) and serving.core is None
        if not self._answers.enabled or serving.building or told:
            return "", ""
        statistics = self._statistics
        if statistics.unobserved and not statistics.silent_because:
            return f"no external torques: {statistics.unobserved}", statistics.unobserved_remedy
        return statistics.silent_because, statistics.remedy

    def destroy_node(self):
        """End a build under way, and the process of the services, with the node."""
        self._serving.cancel()
        self._computing.close()
        super().destroy_node()
