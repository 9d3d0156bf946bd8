"""The rclpy node: topics, services and timers around the core, which is free of ROS."""

import sys
from functools import partial
from time import monotonic_ns

from dynamics_interfaces.srv import CalibrateWrenchSensor, EstimatePayload, SetPayload
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.diagnostics import report
from dynamics_node.node.core.publisher import Publisher
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.node.errors import Reminder
from dynamics_node.node.ros.inputs import Inputs
from dynamics_node.node.ros.outputs import (
    ESTIMATED_CONTACTS,
    EXTERNAL_TORQUES,
    OUTPUTS,
    READINGS,
    Outputs,
)
from dynamics_node.node.ros.robot_node import RobotNode
from dynamics_node.node.services.service_process import ServiceProcess, Start
from dynamics_node.node.services.services import (
    COMPUTING,
    calibrate_wrench_sensor,
    estimate_payload,
    guarded,
    set_payload,
)
from dynamics_node.text import one_line

STALE_PERIOD = 0.02  # s between outputs of on_stale gravity and zero if rate is 0


class DynamicsNode(RobotNode):
    """See config/dynamics.yaml for the parameters, docs/reference/ros.md for topics and services."""

    TITLE = "dynamics"
    LOST_ON_JUMP_BACK = "measured state and reference are cleared"

    def __init__(self, **arguments):
        super().__init__("dynamics_node", PARAMETERS, read_settings, **arguments)
        self._lost_device = ""  # reason in the last report
        self._contact_reminder = Reminder()
        results, external_torques = Outputs(self, OUTPUTS), Outputs(self, EXTERNAL_TORQUES)
        contacts = Outputs(self, ESTIMATED_CONTACTS)
        self._readings = Outputs(self, READINGS)
        self._inputs = Inputs(self, self._manager, self._statistics)
        self._publisher = Publisher(
            self._manager,
            self._statistics,
            self._inputs,
            results.publish,
            external_torques.publish,
            contacts.publish,
        )
        self._create_services()
        self._output_timer = None
        self._schedule_output()
        self._begin(self._manager.settings.autostart)

    def _create_services(self):
        names = {name: self.resolve_service_name(f"~/{name}") for name in COMPUTING}
        place = f"_{self.get_name()}_services", self.get_namespace()
        start = Start(names, *place, arguments=sys.argv[1:])
        self._computing = ServiceProcess(start, self._wake)
        payload = guarded(lambda: self._manager.core, set_payload)
        self.create_service(SetPayload, "~/set_payload", payload)
        calibrate = guarded(lambda: self._manager.core, partial(calibrate_wrench_sensor, self._set))
        self.create_service(CalibrateWrenchSensor, "~/calibrate_wrench_sensor", calibrate)
        estimate = guarded(lambda: self._manager.core, partial(estimate_payload, self._set))
        self.create_service(EstimatePayload, "~/estimate_payload", estimate)
        self.create_service(SetBool, "~/set_enabled", self._set_enabled)

    def _wake(self):
        """Begin a turn. Callable from other threads."""
        if (executor := self.executor) is not None:
            executor.wake()

    def _schedule_output(self):
        """Create the timer of `rate` or `on_stale`, then destroy the old one: an error keeps the old one."""
        settings, old = self._manager.settings, self._output_timer
        timer = None
        if settings.rate > 0:
            timer = self._steady_timer(1.0 / settings.rate, self._publisher.answer)
        elif settings.on_stale != "silent":
            timer = self._steady_timer(STALE_PERIOD, self._publisher.answer_if_stale)
        self._output_timer = timer
        if old is not None:
            self.destroy_timer(old)

    # --- in every turn ------------------------------------------------------------------------

    def after_spin(self):
        """Process the messages of a turn: one solve of the newest state, then one slice of a long reference
        and of a report. Returns True while slices remain."""
        if self._inputs.end_turn():
            self._publisher.estimate_contacts()
            if self._manager.settings.rate == 0:
                self._publisher.answer()
            self._publisher.observe()
            self._gather()
        self._compensate()
        self._computing.step(self._manager.core)
        is_reading = self._inputs.read_on()
        return self.report_on() or is_reading

    def _gather(self):
        """Add the joint state to the payload estimate, if that is running."""
        core = self._manager.core
        if core is not None and core.payload_estimation.running:
            core.payload_estimation.gather(core, monotonic_ns())

    def _compensate(self):
        """Publish the newest force/torque reading with tool compensation."""
        core = self._manager.core
        if core is None or not self._publisher.enabled:
            return
        if reading := core.wrench_sensor.compensated(core, self._inputs.ros_now, monotonic_ns()):
            self._readings.publish(core, reading, reading.stamp)

    # --- robots and time ----------------------------------------------------------------------

    def _on_clock_jump(self, jump):
        super()._on_clock_jump(jump)
        self._inputs.forget()

    # --- parameters and services --------------------------------------------------------------

    def _use_parameters(self, changes):
        old = self._manager.settings
        super()._use_parameters(changes)
        if (old.rate, old.on_stale) != (self._manager.settings.rate, self._manager.settings.on_stale):
            self._schedule_output()

    def _set(self, values) -> str:
        """Set parameters {name: value} atomically; return the reason of a rejection, or ''."""
        changes = [Parameter(name, value=value) for name, value in values.items()]
        result = self.set_parameters_atomically(changes)
        return "" if result.successful else result.reason

    def _set_active(self, is_active):
        self._publisher.enabled = is_active

    def _set_enabled(self, request, response):
        change = self.trigger_activate if request.data else self.trigger_deactivate
        try:
            if request.data != self._publisher.enabled:
                change()
        except RuntimeError:  # of a state without this transition
            response.success, response.message = False, "the node is not configured"
            return response
        response.success, response.message = True, "enabled" if request.data else "disabled"
        return response

    # --- reports ------------------------------------------------------------------------------

    def _before_report(self):
        if problem := self._computing.restart_if_ended():
            self.get_logger().warning(problem)
        if (lost := self._computing.lost_device) and lost != self._lost_device:
            self.get_logger().error(f"the GPU is lost, services continue on the CPU: {one_line(lost)}")
        self._lost_device = lost
        self._publisher.note_stale_input()
        trouble = self._statistics.contact_trouble
        if line := self._contact_reminder.next(trouble and f"contacts: {trouble}"):
            self.get_logger().warning(one_line(line))

    def _status(self):
        return report(self._manager, self._statistics, self._publisher.enabled, self._lost_device)

    def _needs_no_log(self):
        return not self._publisher.enabled or super()._needs_no_log()

    def _trouble_and_remedy(self):
        trouble, remedy = self._statistics.missing
        if trouble and not self._statistics.trouble:
            return trouble, remedy
        return super()._trouble_and_remedy()

    def destroy_node(self):
        """End the process of the services, too."""
        self._computing.close()
        super().destroy_node()
