"""When torques are computed and published. Without ROS."""

from collections.abc import Callable
from time import monotonic_ns, perf_counter
from typing import Any, Protocol

from dynamics_node.node.core.contact_estimate import ContactEstimate, estimate_contacts, uncertainty
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.external_torque import ExternalTorque, external_torque
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.core.torques import Result
from dynamics_node.node.errors import NoOutput


class NewestInput(Protocol):
    """The newest input. stamp: its stamp; ros_now(): ns of ROS time."""

    stamp: Any

    def ros_now(self) -> int: ...


class Publisher:
    """publish(core, result, stamp), publish_external_torque(core, estimate, stamp) and publish_contacts(core,
    estimate, stamp) send messages; steady_now(): ns."""

    def __init__(
        self,
        manager: RobotManager,
        statistics: Statistics,
        inputs: NewestInput,
        publish: Callable[[Core, Result, Any], object],
        publish_external_torque: Callable[[Core, ExternalTorque, Any], object],
        publish_contacts: Callable[[Core, ContactEstimate, Any], object],
        steady_now: Callable[[], int] = monotonic_ns,
    ):
        self.enabled = manager.settings.autostart
        self._manager, self._statistics, self._publish = manager, statistics, publish
        self._publish_external_torque, self._publish_contacts = publish_external_torque, publish_contacts
        self._inputs, self._steady_now = inputs, steady_now

    def answer(self):
        """Publish the torques of the newest input; at a fixed rate, the output of on_stale if it is stale."""
        core = self._manager.core
        if not self.enabled or core is None:
            return
        started = perf_counter()
        try:
            result = core.solve(self._inputs.ros_now, self._steady_now())
            core.require_fresh(self._steady_now())
        except NoOutput as reason:
            self._statistics.no_output(reason)
            if reason.stale and self._manager.settings.rate > 0:
                self._answer_stale(core)
            return
        self._publish(core, result, self._inputs.stamp)
        self._statistics.solved(perf_counter() - started, result.clamped, core.contacts, result.loads)

    def observe(self):
        """Publish the external torques at the newest joint state, if the observer is enabled."""
        core = self._manager.core
        if not (self.enabled and self._manager.settings.observer_enabled) or core is None:
            self._statistics.no_torque.set(None)
            return
        try:
            estimate = external_torque(core, self._steady_now())
            core.require_fresh(self._steady_now())
        except NoOutput as reason:
            self._statistics.no_torque.set(reason)
            return
        self._statistics.no_torque.set(None)
        if estimate is not None:
            self._publish_external_torque(core, estimate, self._inputs.stamp)

    def estimate_contacts(self):
        """Update the active contacts from the newest joint state and publish them, if they are estimated.
        Without an estimate they stay."""
        core, missing = self._manager.core, self._statistics.no_contacts
        if core is None or core.contacts is None or self._manager.settings.contact_source == "given":
            missing.set(None)
            return
        try:
            estimate = estimate_contacts(core, self._steady_now())
        except NoOutput as reason:
            missing.set(reason)
            return
        missing.set(uncertainty(core))
        if estimate is not None and self.enabled:
            self._publish_contacts(core, estimate, self._inputs.stamp)

    def answer_if_stale(self):
        """Publish the output of on_stale if the input is stale; for rate 0, where each output needs an
        input."""
        core = self._manager.core
        if self.enabled and core is not None and (reason := self._missing_state(core)) is not None:
            self._statistics.no_output(reason)
            if reason.stale:
                self._answer_stale(core)

    def note_stale_input(self):
        """Store the reason if joint states have stopped; with rate 0 no other call detects it."""
        core, source = self._manager.core, self._manager.settings.state_source
        if core is not None and source == "measured" and (reason := self._missing_state(core)) is not None:
            self._statistics.note(reason)

    def _missing_state(self, core) -> NoOutput | None:
        """Why there is no measured position now, or no state of the reference that is used; else None."""
        try:
            core.state.vectors_now(self._steady_now(), with_velocity=False)
            core.require_reference(self._inputs.ros_now, self._steady_now())
        except NoOutput as reason:
            return reason
        return None

    def _answer_stale(self, core):
        if self._manager.settings.on_stale == "silent":
            return
        try:
            self._publish(core, core.gravity_torques(), self._inputs.stamp)
        except NoOutput as reason:
            self._statistics.no_output(reason)
        else:
            self._statistics.stale_output(self._manager.settings.on_stale)
