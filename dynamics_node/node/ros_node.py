"""The rclpy node: topics, parameters and timers around Core. Decisions are Core's."""

import contextlib
import os
import sys
from time import monotonic_ns, perf_counter, time_ns

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from dynamics_interfaces.srv import SetPayload
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.model.files import read_regular_file
from dynamics_node.model.urdf import MAX_BYTES
from dynamics_node.node.build_job import Failure
from dynamics_node.node.builds import Builds
from dynamics_node.node.core import NO_STATES, Core, Silence
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
from dynamics_node.node.reference import read_reference, reading
from dynamics_node.node.service_process import ServiceProcess, Start
from dynamics_node.node.services import COMPUTING, guarded, set_payload
from dynamics_node.node.settings import check_against, read_settings
from dynamics_node.node.statistics import Statistics
from dynamics_node.node.text import shown
from dynamics_node.node.wire import StateReader, States, is_plain

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=10)
POLL_PERIOD = 0.02  # s, between looks at a build under way
STALE_PERIOD = 0.02  # s, between outputs of on_stale gravity and zero when rate is 0
SILENCE_AFTER, SILENCE_EVERY = 2, 10  # reports (s) until a silence is told, and from there to the next time
THROTTLE = 2.0  # s, between log lines of one kind
MOST_WARNINGS = 20  # of a robot description, in the log
FRAME = 16  # bytes that a message has beside its text
SHORT = 64 * 1024  # bytes of a message without lists
MIDDLE = 1024 * 1024  # bytes of joint states and of a controller's state
LONG = 32 * 1024 * 1024  # bytes of a reference


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
        self._served = ""  # the last line on what is served
        self._note = ""  # of a Robot, said once
        self._last_stamp = Time()
        self._reader = StateReader()
        self._reading: tuple | None = None  # a Core, and the generator of its next reference
        self._moved = False  # a joint state came that is not answered
        self._settled = monotonic_ns()
        self._statistics = Statistics()
        self._silent_reports, self._told = 0, ""  # how long, and the last reason that was told
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._optional: dict[str, Subscription] = {}  # by topic, while they are needed
        self._create_outputs()
        self._create_inputs()
        self._computing = ServiceProcess(self._service_names(), self._wake)
        self.create_service(SetPayload, "~/set_payload", guarded(lambda: self._core, set_payload))
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
        """Those that are always wanted; see _listen_as_needed."""
        self._listen(String, "robot_description", self._on_description, LATCHED, sys.maxsize)
        self._listen(JointTrajectory, "~/reference", self._on_reference, RELIABLE, LONG)
        self._listen(WrenchStamped, "~/external_wrench", self._on_wrench, SENSOR, SHORT)
        if self._settings.controller_state_topic:
            self._create_controller_input(self._settings.controller_state_topic)
        self._listen(JointState, "joint_states", self._on_joint_state, SENSOR, MIDDLE)
        self._listen_as_needed()

    def _listen_as_needed(self):
        """odom and imu only while something asks for them: at 500 Hz each takes a twentieth of a core."""
        floats = self._core.model.floating_base if self._core is not None else self._settings.floating_base
        for needed, kind, topic, take in (
            (floats, Odometry, "odom", self._on_odometry),
            (self._settings.gravity_source == "imu", Imu, "imu", self._on_imu),
        ):
            if needed and topic not in self._optional:
                self._optional[topic] = self._listen(kind, topic, take, SENSOR, SHORT)
            elif not needed and topic in self._optional:
                self.destroy_subscription(self._optional.pop(topic))

    def _listen(self, kind, topic, take, qos, most):
        """Subscription: take(data, received) gets what has at most `most` bytes; received: steady ns.

        Messages come as bytes: their length is known before anything is made of them.
        """
        label = topic.removeprefix("~/")

        def on_message(data, info):
            if self._core is None and kind is not String:
                return
            try:
                if len(data) > most:
                    raise BadMessage(f"a message of {len(data)} bytes; the limit is {most}")
                take(data, self._received(info))
            except BadMessage as error:
                self._drop(label, error)

        options = QoSOverridingOptions.with_default_policies()
        return self.create_subscription(
            kind, topic, on_message, qos, raw=True, qos_overriding_options=options
        )

    def _received(self, info):
        """Steady ns at which the middleware received a message: it may have waited while something else was
        done, but not since before the last turn, whatever the clock of the machine does."""
        now = monotonic_ns()
        stamp = info["received_timestamp"]
        waited = time_ns() - stamp if stamp > 0 else 0
        return now - min(max(waited, 0), now - self._settled)

    def _create_controller_input(self, topic):
        """control_msgs is no part of a minimal installation."""
        try:
            from control_msgs.msg import JointTrajectoryControllerState
        except ImportError:
            distribution = os.environ.get("ROS_DISTRO", "jazzy")
            package = f"ros-{distribution}-control-msgs"
            self.get_logger().error(f"controller_state_topic needs control_msgs: sudo apt install {package}")
            return

        def take(data, received):
            self._on_controller_state(deserialize_message(data, JointTrajectoryControllerState), received)

        self._listen(JointTrajectoryControllerState, topic, take, SENSOR, MIDDLE)

    def _service_names(self):
        names = {name: self.resolve_service_name(f"~/{name}") for name in COMPUTING}
        return Start(names, f"_{self.get_name()}_services", self.get_namespace())

    def _wake(self):
        """Begin a turn; for other threads."""
        if (executor := self.executor) is not None:
            executor.wake()

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
            self._build(read_regular_file(path, MAX_BYTES + 1))
        except OSError as error:
            self._fail(f"robot_description_file: {error}")

    def _on_description(self, data, received):
        if self._settings.robot_description or self._settings.robot_description_file:
            self.get_logger().info("robot_description on the topic ignored: a parameter gives it", once=True)
            return
        if len(data) > MAX_BYTES + FRAME:
            self._fail(f"robot description has {len(data)} bytes; the limit is {MAX_BYTES} (embed no meshes)")
            return
        self._build(deserialize_message(data, String).data)

    def _build(self, text):
        if self._builds.describe(text, self._settings):
            self._failure = ""  # what came since was refused
        self._poll_timer.reset()

    def _rebuild(self):
        """The same description with other parameters."""
        self._builds.repeat(self._settings)
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
            self._builds.refuse(job, self._settings)
            return
        if self._builds.accept(job, self._settings):
            self._failure = ""
        self._serve(result)

    def _serve(self, robot):
        if self._core is not None and self._core.serves(robot.model):
            self._core.replace(robot, self._settings)
        else:
            self._core = Core(robot, self._settings)
            self._served = ""
            self._statistics.note(Silence("no joint state yet", remedy=NO_STATES))
            self._warn(robot.model.warnings)
        self._listen_as_needed()
        for note in robot.notes:
            if note != self._note:
                self.get_logger().warning(shown(note))
            self._note = note
        self._torque_message = torque_message(self._core.joints.names, robot.model.base_link)
        solver = robot.solver
        served = (
            f"{shown(robot.model.name)}: {len(self._core.joints.names)} joints, "
            f"{solver.problem.kind} dynamics by {solver.description} ({solver.choice.backend})"
        )
        if served != self._served:  # else the services have got their solvers
            self.get_logger().info(served)
        self._served = served

    def _warn(self, warnings):
        """A robot of thousands of links has thousands of them."""
        for warning in warnings[:MOST_WARNINGS]:
            self.get_logger().warning(shown(warning))
        if (more := len(warnings) - MOST_WARNINGS) > 0:
            self.get_logger().warning(f"and {more} more warnings: see `dynamics info`")

    def _fail(self, reason):
        """The last good robot goes on, with whatever settings need no building."""
        self._failure = reason = shown(reason)
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

    def _on_joint_state(self, data, received):
        if is_plain(data):
            states = self._reader.read(data)
        else:
            message = deserialize_message(data, JointState)
            numbers = (message.position, message.velocity, message.effort)
            stamp = message.header.stamp
            states = States(tuple(message.name), *numbers, (stamp.sec, stamp.nanosec))
        *values, (seconds, rest) = states
        if self._core.joints.update(*values, seconds * 1_000_000_000 + rest, received):
            self._last_stamp = Time(sec=seconds, nanosec=rest)
            self._moved = True

    def _on_odometry(self, data, received):
        if not self._core.model.floating_base:
            return
        message = deserialize_message(data, Odometry)
        self._core.base = self._core.read_base(
            pose_numbers(message.pose.pose),
            twist_numbers(message.twist.twist),
            nanoseconds(message.header.stamp),
            received,
            message.child_frame_id,
        )

    def _on_reference(self, data, received):
        """A short one is in force at once, a long one is read a slice a turn; one that comes meanwhile takes
        its place."""
        names, now = self._core.joints.names, self._ros_now()
        if is_plain(data):
            self._reading = self._core, reading(names, data, now, received)
            self._read_on()
        else:
            message = deserialize_message(data, JointTrajectory)
            stamp = nanoseconds(message.header.stamp) or now
            self._core.reference = read_reference(names, message.joint_names, message.points, stamp, received)

    def _read_on(self):
        """The next slice of a reference."""
        core, slices = self._reading
        try:
            next(slices)
        except StopIteration as end:
            core.reference, self._reading = end.value, None
        except BadMessage as error:
            self._reading = None
            self._drop("reference", error)

    def _on_controller_state(self, message, received):
        """Its reference is one point, as those of ~/reference."""
        names = self._core.joints.names
        self._core.reference = read_reference(names, message.joint_names, [message.reference], 0, received)

    def _on_wrench(self, data, received):
        message = deserialize_message(data, WrenchStamped)
        self._core.wrenches.update(message.header.frame_id, wrench_numbers(message.wrench), received)

    def _on_imu(self, data, received):
        if self._settings.gravity_source != "imu":
            return
        message = deserialize_message(data, Imu)
        link = message.header.frame_id
        self._core.tilt = read_tilt(self._core.model, link, *imu_numbers(message), received)

    def _on_clock_jump(self, jump):
        self.get_logger().warning("ROS time jumped back: measured state and reference are forgotten")
        if self._core is not None:
            self._core.joints.reset()
            self._core.base = self._core.reference = None

        self._reading = None

    def problem(self, text):
        """Log an error of ours, and show it in the diagnostics."""
        self._statistics.failed(text)
        self.get_logger().error(text)

    def _drop(self, topic, reason):
        reason = shown(reason)
        self._statistics.dropped(topic, reason)
        self.get_logger().warning(f"{topic} dropped: {reason}", throttle_duration_sec=THROTTLE)

    # --- output -------------------------------------------------------------------------------

    def settle(self):
        """Do what a turn has brought: one torque, for the newest state, and a slice of what takes long. True
        while there is more of that."""
        self._settled = monotonic_ns()
        moved, self._moved = self._moved, False
        if moved and self._output_timer is None:
            self._output()
        self._computing.step(self._core)
        if self._reading is not None:
            self._read_on()
        return self._reading is not None

    def _output(self):
        if not self._enabled or self._core is None:
            return
        started = perf_counter()
        try:
            result = self._core.solve(self._ros_now, monotonic_ns())
            self._core.require_fresh(monotonic_ns())
        except Silence as reason:
            self._statistics.silent(reason)
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
            self._statistics.silent(reason)
            if reason.stale:
                self._output_stale()

    def _output_stale(self):
        if self._settings.on_stale == "silent":
            return
        try:
            self._publish(self._core.gravity_torques())
        except Silence as reason:
            self._statistics.silent(reason)

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
            new, old = settings.job(""), self._settings.job("")
            same_robot = (new.choices, new.names) == (old.choices, old.names)
            if self._core is not None and same_robot:
                check_against(settings, self._core.model)
        except Exception as error:  # whatever it is, the value must not stay
            return SetParametersResult(successful=False, reason=shown(error))
        return SetParametersResult(successful=True)

    def _use_parameters(self, changes):
        if all(change.name.startswith("qos_overrides.") for change in changes):
            return  # of a subscription that is being made
        old, self._settings = self._settings, read_settings(parameter_values(self))
        if (old.rate, old.on_stale) != (self._settings.rate, self._settings.on_stale):
            self._schedule_output()
        self._listen_as_needed()
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
        if problem := self._computing.look_after():
            self.get_logger().warning(problem)
        self._note_stale_input()
        self._say_why_silent()
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

    def _say_why_silent(self):
        """A silence that lasts is told in the terminal too, where people look first."""
        because, remedy = self._statistics.silent_because, self._statistics.remedy
        failed = bool(self._failure) and self._core is None  # an error said it
        lasts = because and self._enabled and not (failed or self._builds.under_way)
        self._silent_reports = self._silent_reports + 1 if lasts else 0
        if self._silent_reports < SILENCE_AFTER:
            self._told = ""
        elif because != self._told or self._silent_reports % SILENCE_EVERY == SILENCE_AFTER:
            told = f"silent: {because}" + (f"; {remedy}" if remedy else "")
            self.get_logger().warning(shown(told), throttle_duration_sec=THROTTLE)
            self._told = because

    def _note_stale_input(self):
        """With rate 0 nothing else notices that the joint states have stopped."""
        if self._core is None or self._settings.state_source != "measured":
            return
        try:
            self._core.measured_state(monotonic_ns(), with_velocity=False)
        except Silence as reason:
            self._statistics.note(reason)

    def destroy_node(self):
        """End a build under way, and the process of the services, with the node."""
        self._builds.cancel()
        self._computing.close()
        super().destroy_node()
