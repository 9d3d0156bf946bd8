"""The rclpy node of dynamics_estimator: parameters, and tables of subscriptions and publishers."""

from time import monotonic_ns, perf_counter

from builtin_interfaces.msg import Time
from dynamics_interfaces.msg import JointStateEstimate
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from dynamics_node.node.core.diagnostics import estimator_report
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.estimator.estimator_core import EstimatorCore
from dynamics_node.node.estimator.estimator_settings import (
    COMMANDED,
    PARAMETERS,
    check_against,
    read_settings,
)
from dynamics_node.node.ros.inputs import DESCRIPTION, MIDDLE, SENSOR, Input, Subscriptions, sensor_inputs
from dynamics_node.node.ros.messages import doubles, nanoseconds, torque_message
from dynamics_node.node.ros.outputs import Output, Outputs
from dynamics_node.node.ros.robot_node import RobotNode
from dynamics_node.node.state.joint_memory import MAX_NAMES


def _joint_states(inputs, core, data, received):
    names, position, velocity, effort, (seconds, rest) = inputs.read_states(data)
    stamp = inputs.stamped(seconds * 1_000_000_000 + rest)
    core.receive_states(names, position, velocity, effort, stamp, received)
    inputs.has_readings = True


def _commanded_torques(inputs, core, data, received):
    names, _, _, effort, (seconds, rest) = inputs.read_states(data)
    core.receive_command(names, effort, inputs.stamped(seconds * 1_000_000_000 + rest), received)


def _effort_commands(inputs, core, data, received):
    message = deserialize_message(data, Float64MultiArray)
    if len(message.data) > MAX_NAMES:
        raise BadMessage(f"{len(message.data)} numbers; the limit is {MAX_NAMES}")
    core.receive_ordered_command(message.data, inputs.ros_now(), received)


def _by_name(settings, core):
    return settings.torque_source == COMMANDED and not settings.command_joints


def _by_number(settings, core):
    return bool(settings.command_joints)


COMMANDS = (
    Input("~/commanded_torques", JointState, SENSOR, MIDDLE, _commanded_torques, _by_name, raw=True),
    Input("~/effort_commands", Float64MultiArray, SENSOR, MIDDLE, _effort_commands, _by_number, raw=True),
)
STATES = Input("joint_states", JointState, SENSOR, MIDDLE, _joint_states, raw=True)


class EstimatorInputs(Subscriptions):
    """has_readings: whether the turn received readings."""

    has_readings = False

    def rows(self):
        """See Subscriptions. Joint states, which create a step, come after the other readings of that
        step."""
        return (DESCRIPTION, *COMMANDS, *sensor_inputs(self.manager.core), STATES)

    def receive_sensor(self, core, topic, message):
        """See Subscriptions."""
        super().receive_sensor(core, topic, message._replace(stamp=self.stamped(nanoseconds(message.stamp))))
        self.has_readings = True

    def stamped(self, stamp: int) -> int:
        """The stamp, ns of ROS time; now for drivers without stamps."""
        return stamp or self.ros_now()

    def end_turn(self) -> bool:
        """End the turn; returns whether it received readings."""
        self.note_turn()
        has_readings, self.has_readings = self.has_readings, False
        return has_readings


def time_message(stamp: int) -> Time:
    """The stamp of ns."""
    seconds, rest = divmod(stamp, 1_000_000_000)
    return Time(sec=seconds, nanosec=rest)


COVARIANCES = (
    "position_covariance",
    "velocity_covariance",
    "acceleration_covariance",
    "external_torque_covariance",
)


def _estimate(core):
    message = JointStateEstimate()
    message.header.frame_id = core.model.base_link

    def write(stamped, stamp):
        estimate = stamped.estimate
        message.header.stamp, message.lag, message.name = stamp, stamped.lag, list(estimate.names)
        for field in ("position", "velocity", "acceleration", "external_torque"):
            setattr(message, field, doubles(getattr(estimate, field)))
        for field, covariance in zip(COVARIANCES, estimate.covariances, strict=True):
            setattr(message, field, doubles(covariance.ravel()))
        message.chi_square, message.readings = estimate.chi_square, estimate.readings
        message.unobservable = list(estimate.unobservable)
        return (message,)

    return write


def _estimated_joint_states(core):
    """All joints, including the dependent joints of loops."""
    message = torque_message(core.joints.names, core.model.base_link)
    at = core.coordinates

    def write(stamped, stamp):
        message.header.stamp = stamp
        message.position = doubles(stamped.estimate.q[at.q_at])
        message.velocity = doubles(stamped.estimate.qd[at.v_at])
        return (message,)

    return write


def _external_torques(core):
    message = torque_message(core.robot.smoothed.independent, core.model.base_link)

    def write(stamped, stamp):
        message.header.stamp = stamp
        message.effort = doubles(stamped.estimate.external_torque)
        return (message,)

    return write


ESTIMATES = (
    Output("~/joint_state_estimate", JointStateEstimate, _estimate),
    Output("~/estimated_joint_states", JointState, _estimated_joint_states),
    Output("~/external_torques", JointState, _external_torques),
)


class EstimatorNode(RobotNode):
    """See config/estimator.yaml for the parameters, docs/reference/estimator.md for topics."""

    TITLE = "estimator"
    LOST_ON_JUMP_BACK = "the estimate restarts"

    def __init__(self, **arguments):
        served = {"make": EstimatorCore, "check": check_against, "check_build": lambda *_: None}
        super().__init__("dynamics_estimator", PARAMETERS, read_settings, served, **arguments)
        self._estimates = Outputs(self, ESTIMATES)
        self._inputs = EstimatorInputs(self, self._manager, self._statistics)
        self._inputs.subscribe()
        self._is_active = False
        self._begin()

    def after_spin(self):
        """Publish the estimate after a turn with readings."""
        core = self._manager.core
        if self._inputs.end_turn() and core is not None and self._is_active:
            self._estimate(core)
        return self.report_on()

    def _set_active(self, is_active):
        self._is_active = is_active

    def _estimate(self, core):
        started = perf_counter()
        try:
            stamped = core.advance(monotonic_ns())
        except NoOutput as reason:
            self._statistics.no_output(reason)
            return
        for note in core.notes:
            if self._throttle.due("note"):
                self.get_logger().warning(note)
        core.notes.clear()
        if stamped is not None:
            self._estimates.publish(core, stamped, time_message(stamped.stamp))
            self._statistics.solved(perf_counter() - started, ())

    def _before_report(self):
        if self._manager.core is None:
            return
        try:
            self._manager.core.require_fresh(monotonic_ns())
        except NoOutput as reason:
            self._statistics.note(reason)

    def _status(self):
        return estimator_report(self._manager, self._statistics)
