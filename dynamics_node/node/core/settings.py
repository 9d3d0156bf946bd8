"""The parameters of the node, each a field of Settings: name, type, default, text and limits.

DescriptionSettings has those that the nodes have in common: which robot, and with what beside its
description. Without ROS.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dynamics_node.codegen import DEVICES
from dynamics_node.estimation import COMPONENTS, ObserverOptions
from dynamics_node.functions import BACKENDS, SOLVERS
from dynamics_node.graph import ORDERINGS
from dynamics_node.node.building.build_job import COMPILING, Job
from dynamics_node.node.core.parameters import parameter, parameters_of
from dynamics_node.robot import KINDS
from dynamics_node.robot.joint_names import Pairs, renamed

FARTHEST = 1e6  # rad, m, m/s^2 or a gear ratio: no robot has more
DESCRIBED = ("joint_names", "held", "armature", "friction")  # groups of parameters
Kind = TypeVar("Kind", bound="DescriptionSettings")


@dataclass(frozen=True)
class DescriptionSettings:
    """Checked values of the parameters that nodes have in common."""

    robot_description: str = parameter("", "URDF text; empty: taken from the topic robot_description")
    robot_description_file: str = parameter(
        "", "URDF file; wins over the topic, yields to robot_description", read_only=True
    )
    loops_file: str = parameter(
        "",
        "YAML file of loops that the description does not have; see docs/reference/files.md",
        read_only=True,
    )
    parameters_file: str = parameter(
        "",
        "YAML file of inertias, rotors, friction, offsets and springs that count instead of the "
        "description's; see docs/reference/identification.md",
        read_only=True,
    )
    strict: bool = parameter(False, "Refuse links with implausible inertia instead of warning")
    joints: tuple[str, ...] = parameter((), "Joints that move; the others are held. Empty: all")
    joint_names_from: tuple[str, ...] = parameter(
        (), "Joints that drivers call otherwise than the description: their names, or patterns with one star"
    )
    joint_names_to: tuple[str, ...] = parameter(
        (),
        "What the description calls these joints, in the same order; elsewhere the drivers' names are used",
    )
    held_joints: tuple[str, ...] = parameter((), "Held joints whose position is not zero")
    held_positions: tuple[float, ...] = parameter(
        (), "Their positions, rad or m", entries=(-FARTHEST, FARTHEST)
    )
    armature_joints: tuple[str, ...] = parameter((), "Joints whose rotor inertia is given here")
    armature_values: tuple[float, ...] = parameter(
        (), "Their rotor inertias, kg m^2 or kg; at the joint, or see armature.gears"
    )
    armature_gears: tuple[float, ...] = parameter(
        (),
        "Gear ratios: the inertias are the motors' then. Empty: all 1",
        entries=(-FARTHEST, FARTHEST),
    )
    friction_joints: tuple[str, ...] = parameter(
        (), "Joints whose friction is given here; others have the URDF's"
    )
    friction_viscous: tuple[float, ...] = parameter((), "Their viscous friction, N m s/rad or N s/m")
    friction_coulomb: tuple[float, ...] = parameter((), "Their Coulomb friction, N m or N")

    def without_description(self: Kind) -> Kind:
        """The settings without the robot_description, which may have megabytes."""
        return replace(self, robot_description="")

    def choices(self) -> dict[str, Any]:
        """What parse_robot is to make of a description."""
        return {
            "strict": self.strict,
            "joints": self._described(self.joints) or None,
            "positions": dict(zip(self._described(self.held_joints), self.held_positions, strict=True)),
            "armature": self.armature(),
        }

    def name_pairs(self) -> Pairs:
        """Of the drivers' names and those of the description."""
        return tuple(zip(self.joint_names_from, self.joint_names_to, strict=True))

    def armature(self) -> dict[str, float]:
        """{joint: rotor inertia at the joint}: a motor's counts with the square of its gear ratio."""
        gears = self.armature_gears or (1.0,) * len(self.armature_joints)
        rows = zip(self._described(self.armature_joints), self.armature_values, gears, strict=True)
        return {joint: value * gear**2 for joint, value, gear in rows}

    def _described(self, names):
        """The description's names of joints."""
        return tuple(renamed(name, self.name_pairs()) for name in names)


STD = 1e-9, 1e9  # of noise: its square is divided by
PROBLEMS = (*KINDS, "sensors")
GROUPS = (*DESCRIBED, "driven", "compensate", "wrench_sensor", "observer", "filter", "payload_estimation")


@dataclass(frozen=True)
class Settings(DescriptionSettings):
    """Checked values of all parameters. The fields of GROUPS are parameters with a dot, `held_joints` is
    `held.joints`; of lists of names empty strings are left out."""

    floating_base: bool = parameter(False, "The root link moves freely; its state comes from odom")
    driven_joints: tuple[str, ...] = parameter(
        (), "Joints that bear the torques where some follow others. Empty: the independent"
    )
    driven_weights: tuple[float, ...] = parameter(
        (), "What their torques cost where there is a choice. Empty: all 1", entries=(1e-6, 1e6)
    )
    command_joints: tuple[str, ...] = parameter((), "Order of ~/effort_commands; empty: it is not published")
    tip_links: tuple[str, ...] = parameter(
        (), "Links of the operational-space service when a request names none"
    )
    gravity: tuple[float, ...] = parameter(
        (0.0, 0.0, -9.81),
        "Acceleration of free fall in root axes, m/s^2",
        entries=(-FARTHEST, FARTHEST),
    )
    gravity_sensor: str = parameter(
        "",
        "IMU of sensors_file, fixed to the root link, that shows the direction of gravity; empty: as given",
    )
    problem: str = parameter(
        "inverse", "What is computed; sensors: what those of sensors_file say", choices=PROBLEMS
    )
    sensors_file: str = parameter(
        "", "YAML file of the robot's sensors and their topics, see docs/reference/sensors.md", read_only=True
    )
    sensor_timeout: float = parameter(
        0.2, "Age at which a reading of one of these sensors is stale, s", bounds=(1e-3, 3600)
    )
    forward_joints: tuple[str, ...] = parameter((), "hybrid: joints with known effort and asked acceleration")
    solver: str = parameter("best", "Algorithm", choices=SOLVERS)
    ordering: str = parameter(
        "best", "Elimination order of solver factor_graph", choices=(*ORDERINGS, "best", "custom")
    )
    custom_ordering: tuple[str, ...] = parameter(
        (), "ordering custom: variables in order, as F1, A1, tau1, qdd1"
    )
    backend: str = parameter("auto", "What runs it", choices=BACKENDS)
    state_source: str = parameter("measured", "Where q and qd come from", choices=("measured", "reference"))
    velocity_source: str = parameter(
        "message",
        "Joint velocities: from the message, differentiated or filtered from positions, or zero",
        choices=("message", "differentiate", "filter", "zero"),
    )
    filter_position_std: float = parameter(
        1e-4, "velocity_source filter: noise of measured positions, rad or m", bounds=(1e-9, 1.0)
    )
    filter_jerk_density: float = parameter(
        1e4, "velocity_source filter: density of white jerk, rad^2/s^5 or m^2/s^5", bounds=(1e-6, 1e12)
    )
    compensate_gravity: bool = parameter(True, "inverse: include gravity (off when the driver already does)")
    compensate_coriolis: bool = parameter(True, "inverse: include Coriolis and centrifugal torques")
    compensate_inertia: bool = parameter(True, "inverse: include the torques of the reference acceleration")
    compensate_friction: bool = parameter(
        False, "inverse: include the torques that overcome friction, springs and offsets of joints"
    )
    observer_enabled: bool = parameter(
        False, "Estimate from measured efforts what pushes on the robot: ~/external_torques, ~/contact"
    )
    observer_velocity_std: tuple[float, ...] = parameter(
        (0.01,),
        "Noise of measured velocities, rad/s or m/s; one for all or one per coordinate",
        entries=STD,
    )
    observer_torque_std: tuple[float, ...] = parameter(
        (0.5,), "Noise of measured efforts, N m or N; one for all or one per coordinate", entries=STD
    )
    observer_model_std: tuple[float, ...] = parameter(
        (0.0,),
        "Errors of model and efforts that stay, N m or N; one for all or one per coordinate",
        entries=(0.0, STD[1]),
    )
    observer_velocity_correlation_time: float = parameter(
        0.0, "How long an error of velocities lasts, s; 0: until the next sample", bounds=(0.0, 1.0)
    )
    observer_bandwidth: float = parameter(30.0, "Of the estimate, rad/s", bounds=(0.1, 1000.0))
    observer_link: str = parameter("", "Link that is pushed, for ~/external_wrench_estimate; empty: none")
    observer_components: tuple[str, ...] = parameter(
        (), "Components that this wrench has, as force.x or moment.z, in link axes. Empty: all"
    )
    observer_false_alarms: float = parameter(
        1.0, "False alarms of ~/contact in an hour", bounds=(1e-6, 3600.0)
    )
    joint_state_timeout: float = parameter(
        0.2, "Age at which joint states and odometry are stale, s", bounds=(1e-3, 60)
    )
    reference_timeout: float = parameter(0.5, "How long a one-point reference holds, s", bounds=(1e-3, 3600))
    wrench_timeout: float = parameter(0.2, "How long an external wrench acts, s", bounds=(1e-3, 3600))
    wrench_sensor_name: str = parameter(
        "", "force_torque sensor of sensors_file whose readings are compensated; empty: none"
    )
    wrench_sensor_bias: tuple[float, ...] = parameter(
        (), "What it reads too much: force x y z, N, torque x y z, N m, in its frame. Empty: nothing"
    )
    wrench_sensor_tool_mass: float = parameter(
        0.0,
        "Mass of all that is fixed to the child link of its joint, kg; 0: as described",
        bounds=(0.0, 1e6),
    )
    wrench_sensor_tool_com: tuple[float, ...] = parameter(
        (), "With tool_mass: its center of mass in the sensor's axes, m", entries=(-FARTHEST, FARTHEST)
    )
    wrench_sensor_acceleration: str = parameter(
        "zero",
        "Joint accelerations whose wrench is taken off: none, of the reference, of velocity_source filter",
        choices=("zero", "reference", "filter"),
    )
    payload_estimation_link: str = parameter(
        "",
        "Link of which is estimated, from measured efforts, what it carries: ~/estimate_payload; empty: none",
    )
    payload_estimation_friction: bool = parameter(
        True,
        "An offset, Coulomb and viscous friction of every joint are estimated with it, beside friction.*",
    )
    payload_estimation_horizon: float = parameter(
        0.0, "After which a state counts by a third, s; 0: all count alike", bounds=(0.0, 86_400.0)
    )
    controller_state_topic: str = parameter(
        "",
        "A controller's state whose reference is taken as ours (control_msgs/JointTrajectoryControllerState)",
        read_only=True,
    )
    on_stale: str = parameter(
        "silent",
        "Output while the input is stale: none, gravity torques of the last position, or zeros",
        choices=("silent", "gravity", "zero"),
    )
    effort_limits: str = parameter("urdf", "Clamp torques to the limits", choices=("urdf", "none", "list"))
    effort_limits_list: tuple[float, ...] = parameter(
        (), "effort_limits list: one per joint of ~/joint_torques, N m or N"
    )
    rate: float = parameter(
        0.0, "Output rate, Hz; 0: at every joint state", bounds=(0.01, 10_000.0), or_zero=True
    )
    autostart: bool = parameter(True, "Start enabled; else ~/set_enabled starts it", read_only=True)

    def job(self, text: str | bytes) -> Job:
        """What has to be built for a robot description."""
        choices = self.choices() | {"floating_base": self.floating_base}
        ordering = self.custom_ordering if self.ordering == "custom" else self.ordering
        services = "auto" if self.backend in COMPILING else "numpy"
        services = self.backend if self.backend in DEVICES else services
        wanted = (self.problem, self.forward_joints, self.solver, ordering, self.backend)
        return Job(
            text,
            choices,
            *wanted,
            services,
            loops_file=self.loops_file,
            parameters_file=self.parameters_file,
            sensors_file=self.sensors_file,
            names=self.name_pairs(),
            links=self.tip_links,
            wrench_sensor=self.wrench_sensor_name,
            observer=self.observer(),
            filter=self.filter(),
            payload_link=self.payload_estimation_link,
        )

    def filter(self) -> tuple[float, float] | None:
        """position_std and jerk_density of the JointFilter, None where none is asked for."""
        if self.velocity_source != "filter":
            return None
        return self.filter_position_std, self.filter_jerk_density

    def observer(self) -> ObserverOptions | None:
        """What observes what pushes on the robot. Raises ValueError."""
        if not self.observer_enabled:
            return None
        return ObserverOptions(
            velocity_std=_one_or_each(self.observer_velocity_std),
            torque_std=_one_or_each(self.observer_torque_std),
            model_std=_one_or_each(self.observer_model_std),
            velocity_correlation_time=self._velocity_correlation_time(),
            bandwidth=self.observer_bandwidth,
            link=self.observer_link or None,
            components=self.observer_components or COMPONENTS,
            false_alarms=self.observer_false_alarms,
        )

    def _velocity_correlation_time(self):
        """As of a `JointFilter`; of the step, at 500 Hz here, only the sixth root counts."""
        if self.velocity_source != "filter" or self.observer_velocity_correlation_time:
            return self.observer_velocity_correlation_time
        return (self.filter_position_std**2 * 0.002 / self.filter_jerk_density) ** (1 / 6)


def _one_or_each(values):
    return values[0] if len(values) == 1 else values


PARAMETERS = parameters_of(Settings, GROUPS)
