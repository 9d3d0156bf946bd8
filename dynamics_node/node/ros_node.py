"""The rclpy node: topics, services and timers around what decides without ROS."""

import os
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
from dynamics_node.node.ros.inputs import Inputs
from dynamics_node.node.ros.outputs import EXTERNAL_TORQUES, OUTPUTS, READINGS, Outputs
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

STALE_PERIOD = 0.02  # s, between outputs of on_stale gravity and zero when rate is 0


class DynamicsNode(RobotNode):
    """See config/dynamics.yaml for the parameters, docs/reference/ros.md for topics and services."""

    TITLE = "dynamics"
    FORGETS = "measured state and reference are forgotten"

    def __init__(self, **arguments):
        super().__init__("dynamics_node", PARAMETERS, read_settings, **arguments)
        self._lost_device = ""  # what was said of it
        self._results, self._pushes = Outputs(self, OUTPUTS), Outputs(self, EXTERNAL_TORQUES)
        self._readings = Outputs(self, READINGS)
        self._inputs = Inputs(self, self._manager, self._statistics)
        self._publisher = Publisher(
            self._manager,
            self._statistics,
            self._publish,
            self._inputs.ros_now,
            publish_external_torque=self._publish_external_torque,
        )
        self._create_services()
        self._output_timer = None
        self._schedule_output()
        self._begin()

    def _create_services(self):
        names = {name: self.resolve_service_name(f"~/{name}") for name in COMPUTING}
        own = f"_{self.get_name()}_services", self.get_namespace()
        start = Start(names, *own, arguments=sys.argv[1:], environment=dict(os.environ))
        self._computing = ServiceProcess(start, self._wake)
        payload = guarded(lambda: self._manager.core, set_payload)
        self.create_service(SetPayload, "~/set_payload", payload)
        calibrate = guarded(lambda: self._manager.core, partial(calibrate_wrench_sensor, self._set))
        self.create_service(CalibrateWrenchSensor, "~/calibrate_wrench_sensor", calibrate)
        estimate = guarded(lambda: self._manager.core, partial(estimate_payload, self._set))
        self.create_service(EstimatePayload, "~/estimate_payload", estimate)
        self.create_service(SetBool, "~/set_enabled", self._set_enabled)

    def _wake(self):
        """Begin a turn; for other threads."""
        if (executor := self.executor) is not None:
            executor.wake()

    def _schedule_output(self):
        """The timer that `rate` or `on_stale` asks for, before the old one goes: what fails leaves that."""
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
        """Do what a turn has brought: one torque, for the newest state, and a slice of what takes long. True
        while there is more of that."""
        if self._inputs.end_turn():
            if self._manager.settings.rate == 0:
                self._publisher.answer()
            self._publisher.observe()
            self._gather()
        self._compensate()
        self._computing.step(self._manager.core)
        return self._inputs.read_on()

    def _gather(self):
        """Let a joint state count for what a link carries, if that is asked for."""
        core = self._manager.core
        if core is not None and core.payload_estimation.running:
            core.payload_estimation.gather(core, monotonic_ns())

    def _publish(self, core, result):
        self._results.publish(core, result, self._inputs.stamp)

    def _compensate(self):
        """Publish what is left of the newest reading of the force/torque sensor."""
        core = self._manager.core
        if core is None or not self._publisher.enabled:
            return
        if found := core.wrench_sensor.compensated(core, self._inputs.ros_now, monotonic_ns()):
            self._readings.publish(core, found, found.stamp)

    def _publish_external_torque(self, core, push):
        self._pushes.publish(core, push, self._inputs.stamp)

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
        """Set parameters {name: value}, all or none: why they are refused, or ''."""
        changes = [Parameter(name, value=value) for name, value in values.items()]
        result = self.set_parameters_atomically(changes)
        return "" if result.successful else result.reason

    def _set_enabled(self, request, response):
        self._publisher.enabled = request.data
        response.success, response.message = True, "enabled" if request.data else "disabled"
        return response

    # --- reports ------------------------------------------------------------------------------

    def _look_around(self):
        if problem := self._computing.look_after():
            self.get_logger().warning(problem)
        if (lost := self._computing.lost_device) and lost != self._lost_device:
            self.get_logger().error(f"the GPU is lost, services go on with the CPU: {one_line(lost)}")
        self._lost_device = lost
        self._publisher.note_stale_input()

    def _status(self):
        return report(self._manager, self._statistics, self._publisher.enabled, self._lost_device)

    def _excused(self):
        return not self._publisher.enabled or super()._excused()

    def _lasting_silence(self):
        statistics = self._statistics
        if statistics.unobserved and not statistics.silent_because:
            return f"no external torques: {statistics.unobserved}", statistics.unobserved_remedy
        return super()._lasting_silence()

    def destroy_node(self):
        """And the process of the services."""
        self._computing.close()
        super().destroy_node()
