"""When torques are computed and published, and when nothing is. Without ROS."""

from collections.abc import Callable
from time import monotonic_ns, perf_counter

from dynamics_node.node.building.serving import Serving
from dynamics_node.node.core.core import Core, Result
from dynamics_node.node.core.observing import Push, observed
from dynamics_node.node.core.silence import Silence
from dynamics_node.node.core.statistics import Statistics


class Answers:
    """publish(core, result) gets what is computed, publish_push(core, push) what pushes; ros_now() and
    steady_now() give ns."""

    def __init__(
        self,
        serving: Serving,
        statistics: Statistics,
        publish: Callable[[Core, Result], object],
        ros_now: Callable[[], int],
        steady_now: Callable[[], int] = monotonic_ns,
        publish_push: Callable[[Core, Push], object] = lambda core, push: None,
    ):
        self.enabled = serving.settings.autostart
        self._serving, self._statistics, self._publish = serving, statistics, publish
        self._publish_push = publish_push
        self._ros_now, self._steady_now = ros_now, steady_now

    def answer(self):
        """Publish the torques of the latest input; at a fixed rate what on_stale says when it is stale."""
        core = self._serving.core
        if not self.enabled or core is None:
            return
        started = perf_counter()
        try:
            result = core.solve(self._ros_now, self._steady_now())
            core.require_fresh(self._steady_now())
        except Silence as reason:
            self._statistics.silent(reason)
            if reason.stale and self._serving.settings.rate > 0:
                self._answer_stale(core)
            return
        self._publish(core, result)
        self._statistics.solved(perf_counter() - started, result.clamped)

    def observe(self):
        """Publish what pushes on the robot by the newest joint state, if that is asked for."""
        core = self._serving.core
        if not (self.enabled and self._serving.settings.observer_enabled) or core is None:
            self._statistics.observing(None)
            return
        try:
            push = observed(core, self._steady_now())
            core.require_fresh(self._steady_now())
        except Silence as reason:
            self._statistics.observing(reason)
            return
        self._statistics.observing(None)
        if push is not None:
            self._publish_push(core, push)

    def answer_if_stale(self):
        """Publish what on_stale says if the input is stale; for rate 0, where no input means no answer."""
        core = self._serving.core
        if not self.enabled or core is None:
            return
        try:
            core.state.vectors_now(self._steady_now(), with_velocity=False)
        except Silence as reason:
            self._statistics.silent(reason)
            if reason.stale:
                self._answer_stale(core)

    def note_stale_input(self):
        """Note it if joint states have stopped; with rate 0 nothing else notices."""
        core = self._serving.core
        if core is None or self._serving.settings.state_source != "measured":
            return
        try:
            core.state.vectors_now(self._steady_now(), with_velocity=False)
        except Silence as reason:
            self._statistics.note(reason)

    def _answer_stale(self, core):
        if self._serving.settings.on_stale == "silent":
            return
        try:
            self._publish(core, core.gravity_torques())
        except Silence as reason:
            self._statistics.silent(reason)
