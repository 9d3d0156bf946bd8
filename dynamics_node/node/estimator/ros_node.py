"""The rclpy node: topics and reports around what decides without ROS."""

from time import monotonic_ns, perf_counter

from dynamics_node.node.core.no_output import NoOutput
from dynamics_node.node.estimator.core import EstimatorCore
from dynamics_node.node.estimator.diagnostics import report
from dynamics_node.node.estimator.inputs import EstimatorInputs, time_message
from dynamics_node.node.estimator.outputs import ESTIMATES
from dynamics_node.node.estimator.settings import PARAMETERS, check_against, read_settings
from dynamics_node.node.ros.outputs import Outputs
from dynamics_node.node.ros.robot_node import RobotNode


class EstimatorNode(RobotNode):
    """See config/estimator.yaml for the parameters, docs/estimator.md for topics."""

    TITLE = "estimator"
    FORGETS = "the estimate begins anew"

    def __init__(self, **arguments):
        served = {"make": EstimatorCore, "check": check_against}
        super().__init__("dynamics_estimator", PARAMETERS, read_settings, served, **arguments)
        self._estimates = Outputs(self, ESTIMATES)
        self._inputs = EstimatorInputs(self, self._manager, self._statistics)
        self._inputs.listen()
        self._begin()

    def after_spin(self):
        """Tell what is known of the newest step that a turn has brought."""
        core = self._manager.core
        if self._inputs.end_turn() and core is not None:
            self._estimate(core)
        return False

    def _estimate(self, core):
        started = perf_counter()
        try:
            told = core.advance(monotonic_ns())
        except NoOutput as reason:
            self._statistics.silent(reason)
            return
        for note in core.notes:
            if self._throttle.due("note"):
                self.get_logger().warning(note)
        core.notes.clear()
        if told is not None:
            self._estimates.publish(core, told, time_message(told.stamp))
            self._statistics.solved(perf_counter() - started, ())

    def _look_around(self):
        if self._manager.core is None:
            return
        try:
            self._manager.core.require_fresh(monotonic_ns())
        except NoOutput as reason:
            self._statistics.note(reason)

    def _status(self):
        return report(self._manager, self._statistics)
