"""When torques are computed and published, and when nothing is. Without ROS."""

from collections.abc import Callable
from time import monotonic_ns, perf_counter

from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.dynamics_core import Core, Result
from dynamics_node.node.core.measured_efforts import ExternalTorque, external_torque
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.errors import NoOutput


class Publisher:
    """publish(core, result) and publish_external_torque(core, estimate) send messages; ros_now() and
    steady_now() give ns."""

    def __init__(
        self,
        manager: RobotManager,
        statistics: Statistics,
        publish: Callable[[Core, Result], object],
        ros_now: Callable[[], int],
        steady_now: Callable[[], int] = monotonic_ns,
        publish_external_torque: Callable[[Core, ExternalTorque], object] = lambda core, push: None,
    ):
        self.enabled = manager.settings.autostart
        self._manager, self._statistics, self._publish = manager, statistics, publish
        self._publish_external_torque = publish_external_torque
        self._ros_now, self._steady_now = ros_now, steady_now

    def answer(self):
        """Publish the torques of the latest input; at a fixed rate what on_stale says when it is stale."""
        core = self._manager.core
        if not self.enabled or core is None:
            return
        started = perf_counter()
        try:
            result = core.solve(self._ros_now, self._steady_now())
            core.require_fresh(self._steady_now())
        except NoOutput as reason:
            self._statistics.silent(reason)
            if reason.stale and self._manager.settings.rate > 0:
                self._answer_stale(core)
            return
        self._publish(core, result)
        self._statistics.solved(perf_counter() - started, result.clamped)

    def observe(self):
        """Publish what pushes on the robot by the newest joint state, if that is asked for."""
        core = self._manager.core
        if not (self.enabled and self._manager.settings.observer_enabled) or core is None:
            self._statistics.observing(None)
            return
        try:
            push = external_torque(core, self._steady_now())
            core.require_fresh(self._steady_now())
        except NoOutput as reason:
            self._statistics.observing(reason)
            return
        self._statistics.observing(None)
        if push is not None:
            self._publish_external_torque(core, push)

    def answer_if_stale(self):
        """Publish what on_stale says if the input is stale; for rate 0, where no input means no answer."""
        core = self._manager.core
        if not self.enabled or core is None:
            return
        try:
            core.state.vectors_now(self._steady_now(), with_velocity=False)
        except NoOutput as reason:
            self._statistics.silent(reason)
            if reason.stale:
                self._answer_stale(core)

    def note_stale_input(self):
        """Note it if joint states have stopped; with rate 0 nothing else notices."""
        core = self._manager.core
        if core is None or self._manager.settings.state_source != "measured":
            return
        try:
            core.state.vectors_now(self._steady_now(), with_velocity=False)
        except NoOutput as reason:
            self._statistics.note(reason)

    def _answer_stale(self, core):
        if self._manager.settings.on_stale == "silent":
            return
        try:
            self._publish(core, core.gravity_torques())
        except NoOutput as reason:
            self._statistics.silent(reason)
