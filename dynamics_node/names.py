"""Names of quantities, and what functions, arguments and quantities of other libraries are called here."""

from typing import Literal, get_args

from dynamics_node.text import close_to

ArrayQuantity = Literal[
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "inverse_mass_matrix",
    "nonlinear_effects",
    "gravity_torque",
    "coriolis_torque",
    "coriolis_matrix",
    "kinetic_energy",
    "potential_energy",
    "spatial_momentum",
    "spatial_momentum_matrix",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "frame_jacobian",
    "frame_jacobian_time_derivative",
    "frame_jacobian_bias",
    "sensor_wrench",
    "reaction_wrenches",
    "joint_torque_regressor",
]
QuantityName = Literal[
    ArrayQuantity,
    "hybrid_dynamics",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
    "hybrid_dynamics_derivatives",
    "inverse_dynamics_second_derivatives",
    "generalized_momentum",
    "center_of_mass",
    "center_of_mass_motion",
    "frame_pose",
    "frame_poses",
    "frame_kinematics",
    "operational_space_inertia",
    "operational_space_inertia_inverse",
    "delassus_matrix",
    "delassus_inverse",
    "impact_dynamics",
    "momentum_regressor",
    "energy_regressor",
    "joint_regressor",
]
QUANTITY_NAMES: tuple[str, ...] = get_args(QuantityName)

# names of Pinocchio, MuJoCo, KDL and Drake
QUANTITIES_ELSEWHERE = {
    "rnea": "inverse_dynamics",
    "mj_inverse": "inverse_dynamics",
    "aba": "forward_dynamics",
    "mj_forward": "forward_dynamics",
    "crba": "mass_matrix",
    "M": "mass_matrix",
    "mass": "mass_matrix",
    "inertia_matrix": "mass_matrix",
    "mj_fullM": "mass_matrix",
    "JntToMass": "mass_matrix",
    "CalcMassMatrix": "mass_matrix",
    "computeMinverse": "inverse_mass_matrix",
    "nle": "nonlinear_effects",
    "nonLinearEffects": "nonlinear_effects",
    "qfrc_bias": "nonlinear_effects",
    "CalcBiasTerm": "coriolis_torque",
    "JntToCoriolis": "coriolis_torque",
    "computeCoriolisMatrix": "coriolis_matrix",
    "gravity": "gravity_torque",
    "gravity_compensation": "gravity_torque",
    "JntToGravity": "gravity_torque",
    "computeGeneralizedGravity": "gravity_torque",
    "jacobian": "frame_jacobian",
    "computeFrameJacobian": "frame_jacobian",
    "mj_jac": "frame_jacobian",
    "fk": "frame_pose",
    "forward_kinematics": "frame_pose",
    "forwardKinematics": "frame_kinematics",
    "com": "center_of_mass",
    "centerOfMass": "center_of_mass",
    "ccrba": "centroidal_momentum_matrix",
    "computeJointTorqueRegressor": "joint_torque_regressor",
    "computeRNEADerivatives": "inverse_dynamics_derivatives",
    "computeABADerivatives": "forward_dynamics_derivatives",
    "constraintDynamics": "forward_dynamics",
    "computeConstraintDynamicsDerivatives": "forward_dynamics_derivatives",
    "computeDelassusMatrix": "delassus_matrix",
    "impulseDynamics": "impact_dynamics",
}

_ARGUMENTS = (  # words of one meaning
    ("link", "links", "frame", "frames", "frame_id", "frame_name", "body", "bodies", "body_name", "ee",
     "ee_link", "ee_frame", "end_effector", "tip", "tip_link", "tcp", "link_name"),
    ("q", "q0", "qpos", "position", "positions", "configuration"),
    ("qd", "v", "qd0", "dq", "qdot", "qvel", "velocity", "velocities"),
    ("qdd", "a", "ddq", "qddot", "qacc", "acceleration", "accelerations"),
    ("tau", "torque", "controls", "u", "torques", "effort", "efforts", "ctrl"),
    ("f_ext", "wrenches", "fext", "f_external", "external_forces", "external_wrenches", "xfrc_applied",
     "wrench"),
    ("reference", "axes", "reference_frame", "rf", "ref"),
    ("robot", "first", "model", "rmodel"),
    ("path", "text", "file", "filename", "file_name", "urdf", "urdf_path", "urdf_file"),
    ("xacro_arguments", "xacro", "xacro_args", "mappings"),
    ("floating_base", "free_flyer", "freeflyer", "root_joint"),
    ("dt", "timestep", "time_step", "h"),
    ("friction", "mu", "friction_coefficient"),
    ("com", "center_of_mass", "cog"),
)  # fmt: skip
_FUNCTIONS = {
    "load_urdf": "load_robot",
    "load_model": "load_robot",
    "load": "load_robot",
    "from_urdf": "load_robot",
    "buildModelFromUrdf": "load_robot",
    "buildModelFromMJCF": "load_robot",
    "buildModelFromXML": "parse_robot",
    "Model": "Robot",
    "neutral": "Robot.neutral",
    "randomConfiguration": "random_configuration",
    "step": "simulate",
    "mj_step": "simulate",
}


def called_here(name: str, names) -> str:
    """A hint at the argument that a function has in place of one of another name: '' if none is similar."""
    names = list(names)
    for words in _ARGUMENTS:
        if name in words and (here := [word for word in words if word in names]):
            return f"here it is {here[0]!r}"
    return close_to(name, names)


def no_argument(function: str, name: str, names) -> TypeError:
    """The error for a keyword that a function does not have."""
    names = list(names)
    hint = called_here(name, names)
    hint = f"; {hint}" if hint else ""
    return TypeError(f"{function} takes {', '.join(names) or 'none'}, not {name!r}{hint}")


def quantity_of(name: str) -> str | None:
    """The quantity that has this name here or elsewhere."""
    return name if name in QUANTITY_NAMES else QUANTITIES_ELSEWHERE.get(name)


def evaluation(quantity: str) -> str:
    """A hint at the call that computes a quantity."""
    return f"use dn.evaluate(robot, {quantity!r}, ...), or dn.build(robot, {quantity!r}) for many calls"


def no_attribute(owner: str, name: str, names) -> AttributeError:
    """The error for an attribute that the library or a Robot does not have."""
    if quantity := quantity_of(name):
        hint = evaluation(quantity)
    elif name in _FUNCTIONS:
        hint = f"use dn.{_FUNCTIONS[name]}"
    else:
        hint = close_to(name, [*names, *QUANTITY_NAMES])
    return AttributeError(f"{owner} has no attribute {name!r}{': ' if hint else ''}{hint}")
