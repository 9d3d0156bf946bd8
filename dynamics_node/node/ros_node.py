"""The rclpy node: topics, parameters and timers around Core. Decisions are Core's."""

import contextlib
import os
from pathlib import Path
from time import monotonic_ns, perf_counter

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.model.urdf import MAX_BYTES
from dynamics_node.node.build_job import Failure
from dynamics_node.node.builds import Builds
from dynamics_node.node.core import Core, Silence, read_base
from dynamics_node.node.diagnostics import diagnostic_message, report
from dynamics_node.node.environment import read_tilt
from dynamics_node.node.joint_memory import JUMP_BACK, BadMessage
from dynamics_node.node.messages import (
    command_message,
    doubles,
    imu_numbers,
    nanoseconds,
    point_message,
    pose_numbers,
    torque_message,
    trajectory_message,
    twist_numbers,
    wrench_numbers,
)
from dynamics_node.node.parameters import declare_parameters, parameter_values
from dynamics_node.node.reference import read_reference
from dynamics_node.node.services import Services
from dynamics_node.node.settings import check_against, read_settings
from dynamics_node.node.statistics import Statistics

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=10)
POLL_PERIOD = 0.02  # s, between looks at a build under way
STALE_PERIOD = 0.02  # s, between outputs of on_stale gravity and zero when rate is 0
THROTTLE = 2.0  # s, between log lines of one kind


class DynamicsNode(Node):
    """See config/dynamics.yaml for the parameters, README.md for topics and services."""

    def __init__(self, **arguments):
        super().__init__("dynamics_node", **arguments)
        declare_parameters(self)
        self._settings = read_settings(parameter_values(self))
        self._enabled = self._settings.autostart
        self._core: Core | None = None
        self._builds = Builds()
        self._failure = ""
        self._last_stamp = Time()
        self._statistics = Statistics()
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._create_outputs()
        self._create_inputs()
        self._computations = Services(self, lambda: self._core)
        self.create_service(SetBool, "~/set_enabled", self._set_enabled)
        self.create_service(Trigger, "~/reload", self._reload)
        self.add_on_set_parameters_callback(self._validate_parameters)
        self.add_post_set_parameters_callback(self._use_parameters)
        self._create_timers()
        self._load_configured_description()

    # --- set-up -----------------------------------------------------------------------------

    def _create_outputs(self):
        def publisher(kind, topic, qos):
            options = QoSOverridingOptions.with_default_policies()
            return self.create_publisher(kind, topic, qos, qos_overriding_options=options)

        self._torques = publisher(JointState, "~/joint_torques", RELIABLE)
        self._solution = publisher(JointTrajectory, "~/solution", RELIABLE)
        self._commands = publisher(Float64MultiArray, "~/effort_commands", RELIABLE)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", RELIABLE)

    def _create_inputs(self):
        for kind, topic, callback, qos in (
            (String, "robot_description", self._on_description, LATCHED),
            (JointState, "joint_states", self._on_joint_state, SENSOR),
            (Odometry, "odom", self._on_odometry, SENSOR),
            (JointTrajectory, "~/reference", self._on_reference, RELIABLE),
            (WrenchStamped, "~/external_wrench", self._on_wrench, SENSOR),
            (Imu, "imu", self._on_imu, SENSOR),
        ):
            options = QoSOverridingOptions.with_default_policies()
            self.create_subscription(kind, topic, callback, qos, qos_overriding_options=options)
        if self._settings.controller_state_topic:
            self._create_controller_input(self._settings.controller_state_topic)

    def _create_controller_input(self, topic):
        """control_msgs is no part of a minimal installation."""
        try:
            from control_msgs.msg import JointTrajectoryControllerState
        except ImportError:
            distribution = os.environ.get("ROS_DISTRO", "jazzy")
            package = f"ros-{distribution}-control-msgs"
            self.get_logger().error(f"controller_state_topic needs control_msgs: sudo apt install {package}")
            return
        self.create_subscription(JointTrajectoryControllerState, topic, self._on_controller_state, SENSOR)

    def _create_timers(self):
        self._steady_timer(1.0, self._report)
        self._poll_timer = self._steady_timer(POLL_PERIOD, self._poll_builds)
        self._poll_timer.cancel()
        self._output_timer = None
        self._stale_timer = None
        self._schedule_output()
        threshold = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-JUMP_BACK))
        self._jump = self.get_clock().create_jump_callback(threshold, post_callback=self._on_clock_jump)

    def _schedule_output(self):
        """The timers that `rate` and `on_stale` ask for."""
        for timer in (self._output_timer, self._stale_timer):
            if timer is not None:
                self.destroy_timer(timer)
        self._output_timer = self._stale_timer = None
        if self._settings.rate > 0:
            self._output_timer = self._steady_timer(1.0 / self._settings.rate, self._output)
        elif self._settings.on_stale != "silent":
            self._stale_timer = self._steady_timer(STALE_PERIOD, self._output_if_stale)

    def _steady_timer(self, period, callback):
        """Simulated time may stand still; models are built and staleness is judged all the same."""
        return self.create_timer(period, callback, clock=self._steady)

    # --- the robot description ----------------------------------------------------------------

    def _load_configured_description(self):
        if self._settings.robot_description:
            self._build(self._settings.robot_description)
        elif self._settings.robot_description_file:
            self._build_file(self._settings.robot_description_file)

    def _build_file(self, path):
        try:
            with Path(path).open("rb") as file:
                self._build(file.read(MAX_BYTES + 1))
        except OSError as error:
            self._fail(f"robot_description_file: {error}")

    def _on_description(self, message):
        if self._settings.robot_description or self._settings.robot_description_file:
            self.get_logger().info("robot_description on the topic ignored: a parameter gives it", once=True)
            return
        self._build(message.data)

    def _build(self, text):
        self._builds.describe(text, self._settings, self._core is not None)
        self._poll_timer.reset()

    def _rebuild(self):
        """The same description with other parameters."""
        self._builds.repeat(self._settings, self._core is not None)
        self._poll_timer.reset()

    def _poll_builds(self):
        if (built := self._builds.step()) is not None:
            self._take(*built)
        if not self._builds.under_way:
            self._poll_timer.cancel()

    def _take(self, job, result):
        """Serve what was built, or say why not."""
        try:
            if isinstance(result, Failure):
                raise ValueError(result.reason)
            check_against(self._settings, result.model)
        except ValueError as error:
            self._fail(str(error))
            self._builds.refuse(job, self._settings, self._core is not None)
            return
        if self._builds.accept(job, self._settings):
            self._failure = ""
        self._serve(result)

    def _serve(self, robot):
        if self._core is not None and self._core.serves(robot.model):
            self._core.replace(robot, self._settings)
        else:
            self._core = Core(robot, self._settings)
            self._statistics.silent_because = "no joint state yet"
            for warning in robot.model.warnings:
                self.get_logger().warning(warning)
        self._torque_message = torque_message(self._core.joints.names, robot.model.base_link)
        solver = robot.solver
        self.get_logger().info(
            f"{robot.model.name}: {len(self._core.joints.names)} joints, "
            f"{solver.problem.kind} dynamics by {solver.description} ({solver.choice.backend})"
        )

    def _fail(self, reason):
        """The last good robot goes on, with whatever settings need no building."""
        self._failure = reason
        if self._core is not None:
            with contextlib.suppress(ValueError):
                check_against(self._settings, self._core.model)
                self._core.apply(self._settings)
        self.get_logger().error(reason)

    def _reload(self, request, response):
        self._load_configured_description()
        if not self._builds.under_way:
            self._rebuild()
        response.success = self._builds.under_way
        response.message = "building" if response.success else self._failure or "no robot description yet"
        return response

    # --- input --------------------------------------------------------------------------------

    def _on_joint_state(self, message):
        if self._core is None:
            return
        stamp = message.header.stamp
        try:
            moved = self._core.joints.update(
                message.name,
                message.position,
                message.velocity,
                message.effort,
                nanoseconds(stamp),
                monotonic_ns(),
            )
        except BadMessage as error:
            self._drop("joint_states", error)
            return
        if moved:
            self._last_stamp = stamp
            if self._output_timer is None:
                self._output()

    def _on_odometry(self, message):
        if self._core is None or not self._core.model.floating_base:
            return
        try:
            child, root = message.child_frame_id, self._core.model.base_link
            if child not in ("", root):
                raise BadMessage(f"child_frame_id {child!r} is not the root link {root!r}")
            self._core.base = read_base(
                pose_numbers(message.pose.pose),
                twist_numbers(message.twist.twist),
                nanoseconds(message.header.stamp),
                monotonic_ns(),
            )
        except BadMessage as error:
            self._drop("odom", error)

    def _on_reference(self, message):
        if self._core is None:
            return
        stamp = nanoseconds(message.header.stamp) or self.get_clock().now().nanoseconds
        try:
            self._core.reference = read_reference(
                self._core.joints.names, message.joint_names, message.points, stamp, monotonic_ns()
            )
        except BadMessage as error:
            self._drop("reference", error)

    def _on_controller_state(self, message):
        """Its reference is one point, as those of ~/reference."""
        if self._core is None:
            return
        try:
            self._core.reference = read_reference(
                self._core.joints.names, message.joint_names, [message.reference], 0, monotonic_ns()
            )
        except BadMessage as error:
            self._drop("controller_state", error)

    def _on_wrench(self, message):
        if self._core is None:
            return
        try:
            self._core.wrenches.update(
                message.header.frame_id, wrench_numbers(message.wrench), monotonic_ns()
            )
        except BadMessage as error:
            self._drop("external_wrench", error)

    def _on_imu(self, message):
        if self._core is None or self._settings.gravity_source != "imu":
            return
        try:
            link = message.header.frame_id
            self._core.tilt = read_tilt(self._core.model, link, *imu_numbers(message), monotonic_ns())
        except BadMessage as error:
            self._drop("imu", error)

    def _on_clock_jump(self, jump):
        self.get_logger().warning("ROS time jumped back: measured state and reference are forgotten")
        if self._core is not None:
            self._core.joints.reset()
            self._core.base = self._core.reference = None

    def _drop(self, topic, reason):
        self._statistics.dropped(topic, reason)
        self.get_logger().warning(f"{topic} dropped: {reason}", throttle_duration_sec=THROTTLE)

    # --- output -------------------------------------------------------------------------------

    def _output(self):
        if not self._enabled or self._core is None:
            return
        started = perf_counter()
        try:
            result = self._core.solve(self._ros_now, monotonic_ns())
        except Silence as reason:
            self._statistics.silent(str(reason))
            if reason.stale and self._output_timer is not None:
                self._output_stale()
            return
        self._publish(result)
        self._statistics.solved(perf_counter() - started, result.clamped)

    def _ros_now(self):
        return self.get_clock().now().nanoseconds

    def _output_if_stale(self):
        if not self._enabled or self._core is None:
            return
        try:
            self._core.measured_state(monotonic_ns(), with_velocity=False)
        except Silence as reason:
            self._statistics.silent(str(reason))
            if reason.stale:
                self._output_stale()

    def _output_stale(self):
        if self._settings.on_stale == "silent":
            return
        try:
            self._publish(self._core.gravity_torques())
        except Silence as reason:
            self._statistics.silent(str(reason))

    def _publish(self, result):
        core = self._core
        at = core.coordinates.v_at
        tau = result.tau[at]
        self._torque_message.header.stamp = self._last_stamp
        self._torque_message.effort = doubles(tau)
        self._torques.publish(self._torque_message)
        if core.command_index.size and core.kind != "forward":
            self._commands.publish(command_message(tau[core.command_index]))
        if self._solution.get_subscription_count():
            point = point_message(result.q[core.coordinates.q_at], result.qd[at], result.qdd[at], tau)
            header = (self._last_stamp, core.model.base_link)
            self._solution.publish(trajectory_message(list(core.joints.names), [point], header))

    # --- parameters and services ----------------------------------------------------------------

    def _validate_parameters(self, changes):
        try:
            settings = read_settings(parameter_values(self, changes))
            same_robot = settings.job("").choices == self._settings.job("").choices
            if self._core is not None and same_robot:
                check_against(settings, self._core.model)
        except (ValueError, TypeError) as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _use_parameters(self, changes):
        old, self._settings = self._settings, read_settings(parameter_values(self))
        if (old.rate, old.on_stale) != (self._settings.rate, self._settings.on_stale):
            self._schedule_output()
        given = ("robot_description", "robot_description_file")
        if any(getattr(old, name) != getattr(self._settings, name) for name in given):
            self._load_configured_description()
        elif old.job("") != self._settings.job("") or (self._core is None and self._failure):
            self._rebuild()
        elif self._core is not None:
            self._core.apply(self._settings)

    def _set_enabled(self, request, response):
        self._enabled = request.data
        response.success, response.message = True, "enabled" if request.data else "disabled"
        return response

    def _report(self):
        self._note_stale_input()
        level, summary, values = report(
            self._core,
            self._statistics,
            enabled=self._enabled,
            building=self._builds.under_way,
            failure=self._failure,
        )
        stamp = self.get_clock().now().to_msg()
        name = f"{self.get_fully_qualified_name()[1:]}: dynamics"
        self._diagnostics.publish(diagnostic_message(stamp, name, level, summary, values))

    def _note_stale_input(self):
        """With rate 0 nothing else notices that the joint states have stopped."""
        if self._core is None or self._settings.state_source != "measured":
            return
        try:
            self._core.measured_state(monotonic_ns(), with_velocity=False)
        except Silence as reason:
            self._statistics.silent_because = str(reason)

    def destroy_node(self):
        """End a build under way with the node."""
        self._builds.cancel()
        super().destroy_node()
