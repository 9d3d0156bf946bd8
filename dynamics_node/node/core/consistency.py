"""Checks of settings against each other and against the robot."""

from typing import Any

from dynamics_node.errors import InputError
from dynamics_node.functions import resolve
from dynamics_node.functions.cone_qp import required_daqp
from dynamics_node.graph import plan_ordering
from dynamics_node.node.building.build_job import CONES, ServedRobot
from dynamics_node.node.core.parameters import read_fields
from dynamics_node.node.core.settings import PARAMETERS, DescriptionSettings, Settings
from dynamics_node.node.state.active_contacts import flags_of
from dynamics_node.node.state.coordinates import JointCoordinates
from dynamics_node.node.state.sensor_readings import used_sensors
from dynamics_node.robot import Robot, named
from dynamics_node.robot.inertial_parameters import with_tool
from dynamics_node.robot.joint_names import name_pairs
from dynamics_node.robot.sensors import ForceTorque
from dynamics_node.robot.validate import HUGE

# Names of parameters.
SAME_LENGTH = (
    ("joint_names.from", "joint_names.to"),
    ("fixed.joints", "fixed.positions"),
    ("armature.joints", "armature.values"),
    ("friction.joints", "friction.viscous"),
    ("friction.joints", "friction.coulomb"),
)
NOT_NEGATIVE = ("armature.values", "friction.viscous", "friction.coulomb")
JOINTS_ONCE = ("joints", "friction.joints")
OWN_NOT_NEGATIVE = ("effort_limits_list",)
OWN_JOINTS_ONCE = ("command_joints", "forward_joints", "driven.joints")
JOINTS_OF_THE_ROBOT = ("command_joints", "friction.joints", "driven.joints")


def read_settings(values: dict[str, Any]) -> Settings:
    """Settings from {parameter name: value}. Raises ValueError with the name of the parameter and the
    reason."""
    settings = read_fields(Settings, PARAMETERS, values)
    check_together(settings)
    return settings


def check_together(settings: Settings):
    """Raise ValueError if settings contradict each other."""
    check_description(settings)
    _check_lists(settings)
    _check_gravity(settings)
    if settings.problem == "hybrid" and not settings.forward_joints:
        raise InputError("problem hybrid needs forward_joints")
    _check_compensation(settings)
    _check_sensors(settings)
    _check_contacts(settings)
    _check_wrench_sensor(settings)
    _check_filter(settings)
    _check_observer(settings)
    if settings.payload_estimation_link and settings.velocity_source == "zero":
        raise InputError("payload_estimation.link needs velocities: velocity_source must not be zero")
    _check_solver(settings)


def _check_solver(settings):
    if settings.problem == "sensors" and settings.ordering != "best":
        raise InputError("problem sensors has no choice of orderings: set ordering to best")
    resolve(settings.solver, settings.elimination_ordering(), settings.backend)


def _of(settings, name):
    return getattr(settings, name.replace(".", "_"))


def check_description(settings: DescriptionSettings):
    """Raise ValueError if the settings of the robot description contradict each other."""
    for a, b in SAME_LENGTH:
        if len(_of(settings, a)) != len(_of(settings, b)):
            raise InputError(f"{a} and {b} differ in length")
    _require_fitting(settings, "armature.joints", "armature.gears")
    require_not_negative(settings, NOT_NEGATIVE)
    require_joints_once(settings, JOINTS_ONCE)
    _check_names(settings)
    _check_armature(settings)
    if settings.fixed_joints and not settings.joints:
        raise InputError("fixed.joints has no effect while joints is empty: list the joints that move")


def require_not_negative(settings, names):
    """Raise ValueError if a list has a negative number."""
    for name in names:
        if any(value < 0 for value in _of(settings, name)):
            raise InputError(f"{name} must not be negative")


def require_joints_once(settings, names):
    """Raise ValueError if a list has a joint twice."""
    for name in names:
        if len(set(_of(settings, name))) != len(_of(settings, name)):
            raise InputError(f"{name} lists a joint twice")


def _require_fitting(settings, a, b):
    """Raise ValueError unless b is empty or as long as a."""
    if len(_of(settings, b)) not in (0, len(_of(settings, a))):
        raise InputError(f"{a} and {b} differ in length")


def _check_lists(settings):
    _require_fitting(settings, "driven.joints", "driven.weights")
    require_not_negative(settings, OWN_NOT_NEGATIVE)
    require_joints_once(settings, OWN_JOINTS_ONCE)


def _check_names(settings):
    try:
        name_pairs(settings.name_pairs())
    except ValueError as error:
        raise InputError(f"joint_names: {error}") from None


def _check_armature(settings):
    for joint, value in settings.armature().items():
        if not value < HUGE:
            raise InputError(f"armature of {joint!r} is {value:g} with its gear, above the limit of {HUGE:g}")


def _check_gravity(settings):
    if len(settings.gravity) != 3:
        raise InputError(f"gravity needs 3 numbers, not {len(settings.gravity)}")
    if settings.gravity_sensor and not any(settings.gravity):
        raise InputError("gravity_sensor needs a gravity that is not zero: its magnitude is used")
    if settings.gravity_sensor and settings.floating_base:
        raise InputError("gravity_sensor requires a fixed root; a floating base reads its pose from odom")


def _check_compensation(settings):
    parts = (settings.compensate_gravity, settings.compensate_coriolis, settings.compensate_inertia)
    if settings.problem != "inverse" and not all(parts):
        raise InputError(
            f"compensate.* must be true for problem {settings.problem}; only inverse can omit parts"
        )
    if settings.problem != "inverse" and settings.compensate_friction:
        raise InputError(f"compensate.friction requires problem inverse, not {settings.problem}")


def _check_sensors(settings):
    for name in ("gravity_sensor", "wrench_sensor.name", "contact_estimation.imu"):
        if _of(settings, name) and not settings.sensors_file:
            raise InputError(f"{name} needs sensors_file, which declares the sensor")
    if settings.problem != "sensors":
        return
    if not settings.sensors_file:
        raise InputError("problem sensors needs sensors_file")
    if settings.state_source == "reference":
        raise InputError("problem sensors reads its state from joint_states: state_source must be measured")
    if settings.driven_joints:
        raise InputError("driven.joints requires problem inverse or forward, not sensors")


def _check_contacts(settings):
    _check_cones(settings)
    _check_contact_source(settings)
    if settings.active_contacts and not settings.contacts_file:
        raise InputError("active_contacts needs contacts_file, which declares the contacts")
    if len(set(settings.active_contacts)) != len(settings.active_contacts):
        raise InputError("active_contacts lists a contact twice")
    if settings.active_contacts and settings.problem == "sensors":
        raise InputError("active_contacts has no effect with problem sensors: leave it empty")
    if settings.contacts_file and settings.problem != "sensors" and not settings.compensate_gravity:
        raise InputError("contacts_file requires compensate.gravity: contacts hold the whole weight")


def _check_cones(settings):
    if settings.contact_forces != CONES:
        if settings.on_violation != "silent":
            raise InputError(f"on_violation {settings.on_violation} needs contact_forces {CONES}")
        return
    if not settings.contacts_file:
        raise InputError(f"contact_forces {CONES} needs contacts_file, which declares the contacts")
    if settings.problem != "inverse":
        raise InputError(f"contact_forces {CONES} requires problem inverse, not {settings.problem}")
    if settings.driven_joints:
        raise InputError(
            f"contact_forces {CONES} limits torques of independent joints, not those of driven.joints: use "
            "contact_forces shortest, or leave driven.joints empty"
        )
    try:
        required_daqp()
    except ImportError as error:
        raise InputError(f"contact_forces {CONES}: {error}") from None


def _check_contact_source(settings):
    if settings.contact_source == "given":
        return
    if not settings.contacts_file:
        raise InputError("contact_source estimated needs contacts_file, which declares the contacts")
    if settings.problem == "sensors":
        raise InputError("contact_source estimated requires problem inverse, forward or hybrid, not sensors")
    if settings.velocity_source == "zero":
        raise InputError("contact_source estimated needs velocities: velocity_source must not be zero")


def _check_wrench_sensor(settings):
    if len(settings.wrench_sensor_bias) not in (0, 6):
        raise InputError(f"wrench_sensor.bias needs 6 numbers, not {len(settings.wrench_sensor_bias)}")
    if len(settings.wrench_sensor_tool_com) != (3 if settings.wrench_sensor_tool_mass else 0):
        raise InputError("a positive wrench_sensor.tool_mass requires 3 numbers in tool_com, and the reverse")
    given = settings.wrench_sensor_bias or settings.wrench_sensor_tool_com
    if given and not settings.wrench_sensor_name:
        raise InputError("wrench_sensor.* have no effect while wrench_sensor.name is empty")


def _check_filter(settings):
    if settings.wrench_sensor_acceleration == "filter" and settings.velocity_source != "filter":
        raise InputError("wrench_sensor.acceleration filter needs velocity_source filter")


def with_sensed_tool(model: Robot, settings: Settings, sensor: ForceTorque | None) -> Robot:
    """The robot with the tool of wrench_sensor.*, if there is one. Raises ValueError."""
    mass, com = settings.wrench_sensor_tool_mass, settings.wrench_sensor_tool_com
    if sensor is None or not mass:
        return model
    try:
        return with_tool(model, sensor.joint, mass, com, sensor.xyz, sensor.rpy)
    except ValueError as error:
        raise InputError(f"wrench_sensor: {error}") from None


def _check_observer(settings):
    try:
        options = settings.observer()
        settings.contact_observer()
    except ValueError as error:
        raise InputError(f"observer: {error}") from None
    if options is not None and settings.velocity_source == "zero":
        raise InputError("observer.enabled needs velocities: velocity_source must not be zero")


def check_against(settings: Settings, robot: ServedRobot):
    """Raise ValueError if names or lengths in the settings do not match the robot."""
    model = robot.model
    if settings.problem != "sensors":
        named(settings.problem, model, settings.forward_joints)
    require_joints(settings, model, JOINTS_OF_THE_ROBOT)
    if settings.driven_joints and settings.problem == "hybrid":
        raise InputError("driven.joints requires problem inverse or forward, not hybrid")
    if settings.driven_joints and not (model.constrained or model.explicit_joints):
        raise InputError(
            "driven.joints requires closed loops or explicit joints: every joint of this robot is driven"
        )
    _check_observed(settings, model)
    _check_active(settings, robot)
    for link in settings.tip_links:
        if link not in model.frames:
            raise InputError(f"tip_links: the robot has no link {link!r}")
    with_sensed_tool(model, settings, used_sensors(robot, settings).wrench)
    limits, joints = settings.effort_limits_list, JointCoordinates(model).names  # of ~/joint_torques
    if settings.effort_limits == "list" and len(limits) != len(joints):
        raise InputError(
            f"effort_limits_list has {len(limits)} entries, "
            f"the robot {len(joints)} joints: {', '.join(joints)}"
        )


def check_job(settings: Settings, robot: ServedRobot):
    """Raise ValueError if a rebuild of the robot would not give what the settings ask for."""
    link = settings.payload_estimation_link
    if link and link not in robot.model.frames:
        raise InputError(f"payload_estimation.link: the robot has no link {link!r}")
    check_ordering(settings, robot)


def check_ordering(settings: Settings, robot: ServedRobot):
    """Raise ValueError unless a list of variables is an ordering of the robot's problem."""
    ordering = settings.elimination_ordering()
    if isinstance(ordering, str):
        return
    contacts = () if robot.touching is None else robot.touching.contacts
    problem = named(settings.problem, robot.model, settings.forward_joints, contacts)
    try:
        plan_ordering(robot.model, problem, ordering)
    except ValueError as error:
        raise InputError(f"ordering: {error}") from None


def _check_active(settings, robot):
    """Check the contacts."""
    if robot.touching is None:
        return
    if settings.problem == "inverse" and not robot.model.floating_base:
        raise InputError(
            "contacts_file needs floating_base with problem inverse: motors of a fixed robot hold it"
        )
    try:
        flags_of([contact.name for contact in robot.touching.contacts], settings.active_contacts)
    except InputError as error:
        raise InputError(f"active_contacts: {error}") from None


def require_joints(settings: DescriptionSettings, model: Robot, parameters, explicit=True):
    """Raise ValueError if a parameter names an unknown joint. explicit: whether explicit joints are allowed;
    friction.joints excludes them, because their friction acts at the joint that they follow."""
    explicit = [joint.name for joint in model.explicit_joints] if explicit else []
    for parameter in parameters:
        joints = [*model.tree.joint_names, *(() if parameter == "friction.joints" else explicit)]
        known = set(joints)
        for name in _of(settings, parameter):
            if name not in known:
                raise InputError(f"{parameter}: unknown joint {name!r}; known: {', '.join(joints)}")


def _check_observed(settings, model):
    """Check the lengths of observer.* and the link."""
    for options in filter(None, (settings.observer(), *(settings.contact_observer() or ())[:1])):
        _check_options(options, model)


def _check_options(options, model):
    for name in ("velocity_std", "torque_std", "model_std"):
        try:
            options.each(name, model.v_names)
        except ValueError as error:
            raise InputError(f"observer.{error}") from None
    if options.link is not None and options.link not in model.frames:
        raise InputError(f"observer.link: the robot has no link {options.link!r}")
