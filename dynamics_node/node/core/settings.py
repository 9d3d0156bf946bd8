"""The parameters of the node, each a field of Settings: name, type, default, description and limits.

DescriptionSettings has the parameters of both nodes: the robot description and its additions. Without ROS.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dynamics_node.codegen import DEVICES
from dynamics_node.estimation import COMPONENTS, ObserverOptions
from dynamics_node.functions import BACKENDS, SOLVERS
from dynamics_node.graph import ORDERINGS
from dynamics_node.node.building.build_job import COMPILING, CONES, CONTACT_FORCES, Job
from dynamics_node.node.core.parameters import parameter, parameters_of
from dynamics_node.robot import KINDS
from dynamics_node.robot.joint_names import Pairs, all_renamed

FARTHEST = 1e6  # rad, m, m/s^2 or a gear ratio: larger values are errors
DESCRIBED = ("joint_names", "fixed", "armature", "friction")  # groups of parameters
Kind = TypeVar("Kind", bound="DescriptionSettings")


@dataclass(frozen=True)
class DescriptionSettings:
    """Checked values of the parameters of both nodes."""

    robot_description: str = parameter("", "URDF text; empty: the topic robot_description")
    robot_description_file: str = parameter(
        "", "URDF file; overrides the topic, ignored if robot_description is set", read_only=True
    )
    loops_file: str = parameter(
        "",
        "YAML file of loops in addition to the description; see docs/reference/files.md",
        read_only=True,
    )
    parameters_file: str = parameter(
        "",
        "YAML file of inertias, rotors, friction, offsets and springs that override the description; "
        "see docs/reference/identification.md",
        read_only=True,
    )
    strict: bool = parameter(False, "Reject links with implausible inertia instead of a warning")
    joints: tuple[str, ...] = parameter((), "Joints that move; the others are fixed. Empty: all")
    joint_names_from: tuple[str, ...] = parameter(
        (), "Driver names of joints whose names differ from the description, or patterns with one star"
    )
    joint_names_to: tuple[str, ...] = parameter(
        (),
        "Description names of these joints, in the same order; all other interfaces use the driver names",
    )
    fixed_joints: tuple[str, ...] = parameter((), "Fixed joints whose position is not zero")
    fixed_positions: tuple[float, ...] = parameter(
        (), "Their positions, rad or m", entries=(-FARTHEST, FARTHEST)
    )
    armature_joints: tuple[str, ...] = parameter((), "Joints whose rotor inertia is set here")
    armature_values: tuple[float, ...] = parameter(
        (), "Their rotor inertias, kg m^2 or kg, at the joint; see armature.gears"
    )
    armature_gears: tuple[float, ...] = parameter(
        (),
        "Gear ratios, if the inertias are those of the motors. Empty: all 1",
        entries=(-FARTHEST, FARTHEST),
    )
    friction_joints: tuple[str, ...] = parameter((), "Joints whose friction is set here; others use the URDF")
    friction_viscous: tuple[float, ...] = parameter((), "Their viscous friction, N m s/rad or N s/m")
    friction_coulomb: tuple[float, ...] = parameter((), "Their Coulomb friction, N m or N")

    def without_description(self: Kind) -> Kind:
        """The settings without the robot_description, which may be large."""
        return replace(self, robot_description="")

    def choices(self) -> dict[str, Any]:
        """Keyword arguments of parse_robot."""
        return {
            "strict": self.strict,
            "joints": self._described(self.joints) or None,
            "positions": dict(zip(self._described(self.fixed_joints), self.fixed_positions, strict=True)),
            "armature": self.armature(),
        }

    def name_pairs(self) -> Pairs:
        """Pairs of driver names and description names."""
        return tuple(zip(self.joint_names_from, self.joint_names_to, strict=True))

    def armature(self) -> dict[str, float]:
        """{joint: rotor inertia at the joint}: that of a motor times the square of its gear ratio."""
        gears = self.armature_gears or (1.0,) * len(self.armature_joints)
        rows = zip(self._described(self.armature_joints), self.armature_values, gears, strict=True)
        return {joint: value * gear**2 for joint, value, gear in rows}

    def _described(self, names):
        """Names in the description, of driver names."""
        return tuple(all_renamed(names, self.name_pairs()))


STD = 1e-9, 1e9  # bounds of standard deviations, whose squares are divisors
PROBLEMS = (*KINDS, "sensors")
GROUPS = (
    *DESCRIBED,
    "driven",
    "compensate",
    "wrench_sensor",
    "observer",
    "filter",
    "payload_estimation",
    "contact_estimation",
)


@dataclass(frozen=True)
class Settings(DescriptionSettings):
    """Checked values of all parameters. Fields of GROUPS are parameters with a dot: `fixed_joints` is
    `fixed.joints`. Lists of names omit empty strings."""

    floating_base: bool = parameter(False, "Whether the root link moves freely; its state comes from odom")
    driven_joints: tuple[str, ...] = parameter(
        (), "Actuated joints of robots with dependent joints. Empty: the independent joints"
    )
    driven_weights: tuple[float, ...] = parameter(
        (), "Costs of their torques under redundant actuation. Empty: all 1", entries=(1e-6, 1e6)
    )
    command_joints: tuple[str, ...] = parameter(
        (), "Order of joints in ~/effort_commands; empty: not published"
    )
    tip_links: tuple[str, ...] = parameter(
        (), "Links of the operational-space service if a request names none"
    )
    gravity: tuple[float, ...] = parameter(
        (0.0, 0.0, -9.81),
        "Acceleration of free fall in root axes, m/s^2",
        entries=(-FARTHEST, FARTHEST),
    )
    gravity_sensor: str = parameter(
        "",
        "IMU of sensors_file on the root link for the direction of gravity; empty: parameter gravity",
    )
    problem: str = parameter(
        "inverse", "Problem; sensors: estimate from those of sensors_file", choices=PROBLEMS
    )
    sensors_file: str = parameter(
        "", "YAML file of the robot's sensors and their topics, see docs/reference/sensors.md", read_only=True
    )
    sensor_timeout: float = parameter(
        0.2, "Age at which a reading of these sensors is stale, s", bounds=(1e-3, 3600)
    )
    contacts_file: str = parameter(
        "", "YAML file of the robot's contacts, see docs/reference/files.md", read_only=True
    )
    active_contacts: tuple[str, ...] = parameter(
        (), "Active contacts until the next message on ~/active_contacts. Empty: all"
    )
    contact_source: str = parameter(
        "given",
        "Source of the active contacts: ~/active_contacts and its parameter, or estimated from efforts",
        choices=("given", "estimated"),
    )
    contact_estimation_bandwidth: float = parameter(
        100.0, "contact_source estimated: bandwidth of the forces, rad/s", bounds=(0.1, 1000.0)
    )
    contact_estimation_level: float = parameter(
        0.06,
        "Normal force at which a contact begins, as a share of the weight; it ends at half",
        bounds=(1e-3, 0.9),
    )
    contact_estimation_imu: str = parameter(
        "",
        "IMU of sensors_file on the floating link, from which the estimate needs no odom; empty: from odom",
    )
    contact_forces: str = parameter(
        "shortest",
        "problem inverse: forces at contacts: the shortest, or within friction and effort limits (by DAQP)",
        choices=CONTACT_FORCES,
    )
    on_violation: str = parameter(
        "silent",
        "friction_cones: output where no forces keep the limits: none, or the least violation",
        choices=("silent", "least"),
    )
    forward_joints: tuple[str, ...] = parameter(
        (), "problem hybrid: joints with known effort and unknown acceleration"
    )
    solver: str = parameter("best", "Algorithm", choices=SOLVERS)
    ordering: str = parameter(
        "best",
        f"Elimination ordering of solver factor_graph: {', '.join(ORDERINGS)}, best, or every unknown "
        "variable in order, as F1,A1,tau1",
    )
    backend: str = parameter("auto", "Backend that runs the solver", choices=BACKENDS)
    state_source: str = parameter("measured", "Source of q and qd", choices=("measured", "reference"))
    velocity_source: str = parameter(
        "message",
        "Joint velocities: from the message, differentiated or filtered from positions, or zero",
        choices=("message", "differentiate", "filter", "zero"),
    )
    filter_position_std: float = parameter(
        1e-4, "velocity_source filter: standard deviation of measured positions, rad or m", bounds=(1e-9, 1.0)
    )
    filter_jerk_density: float = parameter(
        1e4,
        "velocity_source filter: spectral density of white jerk, rad^2/s^5 or m^2/s^5",
        bounds=(1e-6, 1e12),
    )
    compensate_gravity: bool = parameter(
        True, "inverse: include gravity; false if the driver compensates gravity"
    )
    compensate_coriolis: bool = parameter(True, "inverse: include Coriolis and centrifugal torques")
    compensate_inertia: bool = parameter(True, "inverse: include the torques of the reference acceleration")
    compensate_friction: bool = parameter(False, "inverse: include joint friction, springs and offsets")
    observer_enabled: bool = parameter(
        False, "Estimate external torques from measured efforts: ~/external_torques, ~/contact"
    )
    observer_velocity_std: tuple[float, ...] = parameter(
        (0.01,),
        "Standard deviation of measured velocities, rad/s or m/s; one for all or one per coordinate",
        entries=STD,
    )
    observer_torque_std: tuple[float, ...] = parameter(
        (0.5,),
        "Standard deviation of measured efforts, N m or N; one for all or one per coordinate",
        entries=STD,
    )
    observer_model_std: tuple[float, ...] = parameter(
        (0.0,),
        "Constant errors of model and efforts, N m or N; one for all or one per coordinate",
        entries=(0.0, STD[1]),
    )
    observer_velocity_correlation_time: float = parameter(
        0.0, "Correlation time of velocity noise, s; 0: white noise", bounds=(0.0, 1.0)
    )
    observer_bandwidth: float = parameter(30.0, "Bandwidth of the estimate, rad/s", bounds=(0.1, 1000.0))
    observer_link: str = parameter("", "Contact link of ~/external_wrench_estimate; empty: not published")
    observer_components: tuple[str, ...] = parameter(
        (), "Nonzero components of this wrench in link axes, for example force.x, moment.z. Empty: all"
    )
    observer_false_alarms: float = parameter(1.0, "False alarms of ~/contact per hour", bounds=(1e-6, 3600.0))
    joint_state_timeout: float = parameter(
        0.2, "Age at which joint states and odometry are stale, s", bounds=(1e-3, 60)
    )
    reference_timeout: float = parameter(0.5, "Validity of a one-point reference, s", bounds=(1e-3, 3600))
    wrench_timeout: float = parameter(0.2, "Validity of an external wrench, s", bounds=(1e-3, 3600))
    wrench_sensor_name: str = parameter(
        "", "force_torque sensor of sensors_file whose readings are compensated; empty: none"
    )
    wrench_sensor_bias: tuple[float, ...] = parameter(
        (), "Its bias in its frame: force x y z, N, torque x y z, N m. Empty: zero"
    )
    wrench_sensor_tool_mass: float = parameter(
        0.0,
        "Mass of the child link of its joint with everything fixed to it, kg; 0: as described",
        bounds=(0.0, 1e6),
    )
    wrench_sensor_tool_com: tuple[float, ...] = parameter(
        (), "Center of mass of tool_mass in the axes of the sensor, m", entries=(-FARTHEST, FARTHEST)
    )
    wrench_sensor_acceleration: str = parameter(
        "zero",
        "Joint accelerations of the compensation: zero, of the reference, or of velocity_source filter",
        choices=("zero", "reference", "filter"),
    )
    payload_estimation_link: str = parameter(
        "",
        "Link whose payload is estimated from measured efforts, see ~/estimate_payload; empty: none",
    )
    payload_estimation_friction: bool = parameter(
        True,
        "Estimate also an offset, Coulomb and viscous friction of every joint, in addition to friction.*",
    )
    payload_estimation_horizon: float = parameter(
        0.0, "Time constant of forgetting, s; 0: all states have the same weight", bounds=(0.0, 86_400.0)
    )
    controller_state_topic: str = parameter(
        "",
        "Controller state whose reference is used (control_msgs/JointTrajectoryControllerState)",
        read_only=True,
    )
    on_stale: str = parameter(
        "silent",
        "Output for stale input or an ended reference: none, gravity torques at the last position, or zeros",
        choices=("silent", "gravity", "zero"),
    )
    effort_limits: str = parameter(
        "urdf", "Source of the limits that torques are clamped to", choices=("urdf", "none", "list")
    )
    effort_limits_list: tuple[float, ...] = parameter(
        (), "effort_limits list: one per joint of ~/joint_torques, N m or N"
    )
    limits_file: str = parameter(
        "", "YAML of joint_limits for torques and services; the tightest limit counts", read_only=True
    )
    rate: float = parameter(
        0.0, "Output rate, Hz; 0: at every joint state", bounds=(0.01, 10_000.0), or_zero=True
    )
    autostart: bool = parameter(
        True, "Activate at start; otherwise the lifecycle or ~/set_enabled does", read_only=True
    )

    def job(self, text: str | bytes) -> Job:
        """The build job of a robot description."""
        choices = self.choices() | {"floating_base": self.floating_base}
        services = "auto" if self.backend in COMPILING else "numpy"
        services = self.backend if self.backend in DEVICES else services
        wanted = (self.problem, self.forward_joints, self.solver, self.elimination_ordering(), self.backend)
        limited = self.contact_forces == CONES
        return Job(
            text,
            choices,
            *wanted,
            services,
            loops_file=self.loops_file,
            parameters_file=self.parameters_file,
            sensors_file=self.sensors_file,
            contacts_file=self.contacts_file,
            limits_file=self.limits_file,
            contact_forces=self.contact_forces,
            effort_limits=self.effort_limits if limited else "",
            effort_limits_list=self.effort_limits_list if limited else (),
            names=self.name_pairs(),
            links=self.tip_links,
            wrench_sensor=self.wrench_sensor_name,
            observer=self.observer(),
            contact_observer=self.contact_observer(),
            filter=self.filter(),
            payload_link=self.payload_estimation_link,
        )

    def elimination_ordering(self) -> str | tuple[str, ...]:
        """A name, or the names of variables, which contain digits."""
        words = tuple(word.strip() for word in self.ordering.split(","))
        is_list = len(words) > 1 or any(letter.isdigit() for letter in self.ordering)
        return words if is_list else self.ordering

    def filter(self) -> tuple[float, float] | None:
        """position_std and jerk_density of the JointFilter, None without velocity_source filter."""
        if self.velocity_source != "filter":
            return None
        return self.filter_position_std, self.filter_jerk_density

    def observer(self) -> ObserverOptions | None:
        """Options of the momentum observer, None if disabled. Raises ValueError."""
        if not self.observer_enabled:
            return None
        return ObserverOptions(
            **self._noise(),
            bandwidth=self.observer_bandwidth,
            link=self.observer_link or None,
            components=self.observer_components or COMPONENTS,
            false_alarms=self.observer_false_alarms,
        )

    def contact_observer(self) -> tuple[ObserverOptions, float, str] | None:
        """Options, level and IMU of the observer of contacts, None if they are given. Raises ValueError."""
        if self.contact_source != "estimated":
            return None
        options = ObserverOptions(**self._noise(), bandwidth=self.contact_estimation_bandwidth)
        return options, self.contact_estimation_level, self.contact_estimation_imu

    def _noise(self):
        """Options of both observers, by keyword."""
        return {
            "velocity_std": _one_or_each(self.observer_velocity_std),
            "torque_std": _one_or_each(self.observer_torque_std),
            "model_std": _one_or_each(self.observer_model_std),
            "velocity_correlation_time": self._velocity_correlation_time(),
        }

    def _velocity_correlation_time(self):
        """That of a `JointFilter` at 500 Hz; it depends on the sixth root of the period only."""
        if self.velocity_source != "filter" or self.observer_velocity_correlation_time:
            return self.observer_velocity_correlation_time
        return (self.filter_position_std**2 * 0.002 / self.filter_jerk_density) ** (1 / 6)


def _one_or_each(values):
    return values[0] if len(values) == 1 else values


PARAMETERS = parameters_of(Settings, GROUPS)
