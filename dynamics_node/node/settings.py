"""The parameters of the node: one table, and the checked values."""

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.graph import ORDERINGS
from dynamics_node.loops import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.model.names import Pairs, name_pairs, renamed
from dynamics_node.model.validate import HUGE
from dynamics_node.node.build_job import COMPILING, Job
from dynamics_node.problem import KINDS, named
from dynamics_node.solver import BACKENDS, SOLVERS, resolve

FARTHEST = 1e6  # rad, m, m/s^2 or a gear ratio: no robot has more


class Parameter(NamedTuple):
    """name, default (its type is the parameter's), what it means, what it may be.

    read_only: settable at the start alone. Files are: whoever is on the network may set the others.
    """

    name: str
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    read_only: bool = False
    entries: tuple[float, float] = (-HUGE, HUGE)  # of a list of numbers


STRINGS: list[str] = []  # declared by type, not set: ROS cannot tell an empty list's type
NUMBERS: list[float] = []

PARAMETERS = (
    Parameter("robot_description", "", "URDF text; empty: taken from the topic robot_description"),
    Parameter(
        "robot_description_file",
        "",
        "URDF file; wins over the topic, yields to robot_description",
        read_only=True,
    ),
    Parameter(
        "loops_file",
        "",
        "YAML file of loops that the description does not have; see docs/loops.md",
        read_only=True,
    ),
    Parameter("strict", False, "Refuse links with implausible inertia instead of warning"),
    Parameter("floating_base", False, "The root link moves freely; its state comes from odom"),
    Parameter("joints", STRINGS, "Joints that move; the others are held. Empty: all"),
    Parameter(
        "joint_names.from",
        STRINGS,
        "Joints that drivers call otherwise than the description: their names, or patterns with one star",
    ),
    Parameter(
        "joint_names.to",
        STRINGS,
        "What the description calls these joints, in the same order; elsewhere the drivers' names are used",
    ),
    Parameter("held.joints", STRINGS, "Held joints whose position is not zero"),
    Parameter("held.positions", NUMBERS, "Their positions, rad or m", entries=(-FARTHEST, FARTHEST)),
    Parameter("armature.joints", STRINGS, "Joints whose rotor inertia is given here"),
    Parameter(
        "armature.values", NUMBERS, "Their rotor inertias, kg m^2 or kg; at the joint, or see armature.gears"
    ),
    Parameter(
        "armature.gears",
        NUMBERS,
        "Gear ratios: the inertias are the motors' then. Empty: all 1",
        entries=(-FARTHEST, FARTHEST),
    ),
    Parameter("friction.joints", STRINGS, "Joints whose friction is given here; others have the URDF's"),
    Parameter("friction.viscous", NUMBERS, "Their viscous friction, N m s/rad or N s/m"),
    Parameter("friction.coulomb", NUMBERS, "Their Coulomb friction, N m or N"),
    Parameter("driven.joints", STRINGS, "Closed loops: joints that bear the torques. Empty: the independent"),
    Parameter("driven.weights", NUMBERS, "What their torques cost where there is a choice. Empty: all 1"),
    Parameter("command_joints", STRINGS, "Order of ~/effort_commands; empty: it is not published"),
    Parameter("tip_links", STRINGS, "Links of the operational-space service when a request names none"),
    Parameter(
        "gravity",
        [0.0, 0.0, -9.81],
        "Acceleration of free fall in root axes, m/s^2",
        entries=(-FARTHEST, FARTHEST),
    ),
    Parameter(
        "gravity_source",
        "parameter",
        "Direction of gravity: of the parameter, or of topic imu, whose sensor is fixed to the root link",
        ("parameter", "imu"),
    ),
    Parameter("problem", "inverse", "What is computed", KINDS),
    Parameter("forward_joints", STRINGS, "hybrid: joints with known effort and asked acceleration"),
    Parameter("solver", "best", "Algorithm", SOLVERS),
    Parameter("ordering", "best", "Elimination order of solver factor_graph", (*ORDERINGS, "best", "custom")),
    Parameter("custom_ordering", STRINGS, "ordering custom: variables in order, as F1, A1, tau1, qdd1"),
    Parameter("backend", "auto", "What runs it", BACKENDS),
    Parameter("state_source", "measured", "Where q and qd come from", ("measured", "reference")),
    Parameter(
        "velocity_source",
        "message",
        "Joint velocities: from the message, differentiated from positions, or zero",
        ("message", "differentiate", "zero"),
    ),
    Parameter("compensate.gravity", True, "inverse: include gravity (off when the driver already does)"),
    Parameter("compensate.coriolis", True, "inverse: include Coriolis and centrifugal torques"),
    Parameter("compensate.inertia", True, "inverse: include the torques of the reference acceleration"),
    Parameter("compensate.friction", False, "inverse: include the torques that overcome friction"),
    Parameter(
        "joint_state_timeout", 0.2, "Age at which joint states and odometry are stale, s", (), (1e-3, 60)
    ),
    Parameter("reference_timeout", 0.5, "How long a one-point reference holds, s", (), (1e-3, 3600)),
    Parameter("wrench_timeout", 0.2, "How long an external wrench acts, s", (), (1e-3, 3600)),
    Parameter("imu_timeout", 1.0, "Age at which the direction of gravity is stale, s", (), (1e-3, 3600)),
    Parameter(
        "controller_state_topic",
        "",
        "A controller's state whose reference is taken as ours (control_msgs/JointTrajectoryControllerState)",
        (),
        None,
        True,
    ),
    Parameter(
        "on_stale",
        "silent",
        "Output while the input is stale: none, gravity torques of the last position, or zeros",
        ("silent", "gravity", "zero"),
    ),
    Parameter("effort_limits", "urdf", "Clamp torques to the limits", ("urdf", "none", "list")),
    Parameter(
        "effort_limits_list", NUMBERS, "effort_limits list: one per joint of ~/joint_torques, N m or N"
    ),
    Parameter("rate", 0.0, "Output rate, Hz; 0: at every joint state", (), (0.0, 10_000.0)),
    Parameter("autostart", True, "Start enabled; else ~/set_enabled starts it", (), None, True),
)


@dataclass(frozen=True)
class Settings:
    """The values of PARAMETERS, dots as underscores, lists as tuples without empty strings."""

    robot_description: str
    robot_description_file: str
    loops_file: str
    strict: bool
    floating_base: bool
    joints: tuple[str, ...]
    joint_names_from: tuple[str, ...]
    joint_names_to: tuple[str, ...]
    held_joints: tuple[str, ...]
    held_positions: tuple[float, ...]
    armature_joints: tuple[str, ...]
    armature_values: tuple[float, ...]
    armature_gears: tuple[float, ...]
    friction_joints: tuple[str, ...]
    friction_viscous: tuple[float, ...]
    friction_coulomb: tuple[float, ...]
    driven_joints: tuple[str, ...]
    driven_weights: tuple[float, ...]
    command_joints: tuple[str, ...]
    tip_links: tuple[str, ...]
    gravity: tuple[float, ...]
    gravity_source: str
    problem: str
    forward_joints: tuple[str, ...]
    solver: str
    ordering: str
    custom_ordering: tuple[str, ...]
    backend: str
    state_source: str
    velocity_source: str
    compensate_gravity: bool
    compensate_coriolis: bool
    compensate_inertia: bool
    compensate_friction: bool
    joint_state_timeout: float
    reference_timeout: float
    wrench_timeout: float
    imu_timeout: float
    controller_state_topic: str
    on_stale: str
    effort_limits: str
    effort_limits_list: tuple[float, ...]
    rate: float
    autostart: bool

    def without_description(self) -> "Settings":
        """The same without megabytes of text."""
        return replace(self, robot_description="")

    def job(self, text: str) -> Job:
        """What has to be built for a robot description."""
        choices = {
            "strict": self.strict,
            "floating_base": self.floating_base,
            "joints": self._described(self.joints) or None,
            "positions": dict(zip(self._described(self.held_joints), self.held_positions, strict=True)),
            "armature": self._armature(),
        }
        ordering = self.custom_ordering if self.ordering == "custom" else self.ordering
        services = "auto" if self.backend in COMPILING else "numpy"
        wanted = (self.problem, self.forward_joints, self.solver, ordering, self.backend)
        return Job(text, choices, *wanted, services, self.loops_file, self.name_pairs(), self.tip_links)

    def name_pairs(self) -> Pairs:
        """Of the drivers' names and those of the description."""
        return tuple(zip(self.joint_names_from, self.joint_names_to, strict=True))

    def _described(self, names):
        """The description's names of joints."""
        return tuple(renamed(name, self.name_pairs()) for name in names)

    def _armature(self):
        """{joint: rotor inertia at the joint}: a motor's counts with the square of its gear ratio."""
        gears = self.armature_gears or (1.0,) * len(self.armature_joints)
        rows = zip(self._described(self.armature_joints), self.armature_values, gears, strict=True)
        return {joint: value * gear**2 for joint, value, gear in rows}


def read_settings(values: dict[str, Any]) -> Settings:
    """Settings from {parameter name: value}. Raises ValueError with the parameter's name and the reason."""
    checked = {p.name.replace(".", "_"): _checked(p, values[p.name]) for p in PARAMETERS}
    settings = Settings(**{field.name: checked[field.name] for field in fields(Settings)})
    _check_together(settings)
    return settings


def _checked(parameter, value):
    if isinstance(parameter.default, list):
        value = tuple(entry for entry in value or () if entry != "")
        if parameter.default is not STRINGS:
            _check_numbers(parameter, np.array(value, dtype=float))
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not _is_text(text):
            raise ValueError(f"{parameter.name} {text[:50]!r} has a character that no name or path has")
    if parameter.choices and value not in parameter.choices:
        raise ValueError(f"{parameter.name} {value!r} is none of {', '.join(parameter.choices)}")
    if parameter.bounds:
        low, high = parameter.bounds
        if not low <= value <= high:
            raise ValueError(f"{parameter.name} {value!r} is not between {low:g} and {high:g}")
    return value


def _check_numbers(parameter, values):
    if not np.isfinite(values).all():
        raise ValueError(f"{parameter.name} has an entry that is not finite: {values.tolist()}")
    low, high = parameter.entries
    if beyond := [value for value in values.tolist() if not low <= value <= high]:
        raise ValueError(f"{parameter.name} has {beyond[0]:g}, which is not between {low:g} and {high:g}")


def _is_text(value):
    """Without zeros, which end a path, and halves of characters, which no encoding has."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _check_together(settings):
    _check_lists(settings)
    _check_names(settings)
    _check_armature(settings)
    _check_gravity(settings)
    if settings.held_joints and not settings.joints:
        raise ValueError("held.joints has no meaning while joints is empty")
    if settings.problem == "hybrid" and not settings.forward_joints:
        raise ValueError("problem hybrid needs forward_joints")
    if (settings.ordering == "custom") != bool(settings.custom_ordering):
        raise ValueError("ordering custom and a non-empty custom_ordering go together")
    _check_compensation(settings)
    resolve(settings.solver, settings.custom_ordering or settings.ordering, settings.backend)


def _check_lists(settings):
    """Lists that go together, numbers that cannot be negative, names that come once."""
    for a, b in (
        ("joint_names_from", "joint_names_to"),
        ("held_joints", "held_positions"),
        ("armature_joints", "armature_values"),
        ("friction_joints", "friction_viscous"),
        ("friction_joints", "friction_coulomb"),
    ):
        if len(getattr(settings, a)) != len(getattr(settings, b)):
            raise ValueError(f"{_dotted(a)} and {_dotted(b)} differ in length")
    if len(settings.driven_weights) not in (0, len(settings.driven_joints)):
        raise ValueError("driven.joints and driven.weights differ in length")
    if any(weight <= 0 for weight in settings.driven_weights):
        raise ValueError("driven.weights must be positive")
    for name in ("armature_values", "effort_limits_list", "friction_viscous", "friction_coulomb"):
        if any(value < 0 for value in getattr(settings, name)):
            raise ValueError(f"{_dotted(name)} must not be negative")
    for name in ("joints", "command_joints", "forward_joints", "friction_joints", "driven_joints"):
        if len(set(getattr(settings, name))) != len(getattr(settings, name)):
            raise ValueError(f"{_dotted(name)} names a joint twice")


def _check_names(settings):
    try:
        name_pairs(settings.name_pairs())
    except ValueError as error:
        raise ValueError(f"joint_names: {error}") from None


def _check_armature(settings):
    if len(settings.armature_gears) not in (0, len(settings.armature_joints)):
        raise ValueError("armature.joints and armature.gears differ in length")
    for joint, value in settings._armature().items():
        if not value < HUGE:
            raise ValueError(f"armature of {joint!r} is {value:g} with its gear, which is beyond {HUGE:g}")


def _check_gravity(settings):
    if len(settings.gravity) != 3:
        raise ValueError(f"gravity needs 3 numbers, not {len(settings.gravity)}")
    if settings.gravity_source == "imu" and not any(settings.gravity):
        raise ValueError("gravity_source imu takes the strength of gravity from gravity, which is zero")
    if settings.gravity_source == "imu" and settings.floating_base:
        raise ValueError("gravity_source imu is for a fixed root; a floating base has its pose from odom")


def _dotted(name):
    """The parameter of a setting that belongs to a group."""
    group, _, rest = name.partition("_")
    if name.startswith("joint_names_"):
        return name.replace("names_", "names.")
    return f"{group}.{rest}" if group in ("held", "armature", "friction", "driven") else name


def _check_compensation(settings):
    parts = (settings.compensate_gravity, settings.compensate_coriolis, settings.compensate_inertia)
    if settings.problem != "inverse" and not all(parts):
        raise ValueError(f"compensate.* can be switched off for problem inverse only, not {settings.problem}")
    if settings.problem != "inverse" and settings.compensate_friction:
        raise ValueError(f"compensate.friction is for problem inverse only, not {settings.problem}")


def check_against(settings: Settings, model: Model | Mechanism):
    """Raise ValueError when the settings do not fit the robot: names and lengths."""
    named(settings.problem, model, settings.forward_joints)
    joints = tree_of(model).joint_names
    known = frozenset(joints)
    for parameter, names in (
        ("command_joints", settings.command_joints),
        ("friction.joints", settings.friction_joints),
        ("driven.joints", settings.driven_joints),
    ):
        for name in names:
            if name not in known:
                raise ValueError(f"{parameter}: {name!r} is none of {', '.join(joints)}")
    if settings.driven_joints and settings.problem == "hybrid":
        raise ValueError("driven.joints goes with problem inverse or forward, not with hybrid")
    if settings.driven_joints and not isinstance(model, Mechanism):
        raise ValueError("driven.joints is for robots with closed loops: here every joint is driven")
    for link in settings.tip_links:
        if link not in model.frames:
            raise ValueError(f"tip_links: the robot has no link {link!r}")
    limits = settings.effort_limits_list
    if settings.effort_limits == "list" and len(limits) != len(joints):
        raise ValueError(
            f"effort_limits_list has {len(limits)} entries, "
            f"the robot {len(joints)} joints: {', '.join(joints)}"
        )
